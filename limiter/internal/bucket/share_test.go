// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// When another level comes into force, the caches of the level before are empty.
func TestCachesAreEmptiedWhenTheLevelChanges(t *testing.T) {
	const now, later = stage.Instant(0), stage.Instant(2 * time.Second)
	terms := &share.Terms{
		Rule:    &dynamicconfig.Rule{Key: "k", Limit: 10_000, Burst: 10_000, Fallback: dynamicconfig.FallbackClosed},
		Reports: true, Traits: dynamicconfig.Traits{Early: true},
	}
	for name, change := range map[string]func(r *share.Rate){
		"the lease ends":           func(r *share.Rate) { r.Steer(later, 1) },
		"the grant is forgotten":   func(r *share.Rate) { r.Forget(later, 1) },
		"a grant takes all tokens": func(r *share.Rate) { r.Lend(now, -r.Tokens(now), 1) },
		"tokens are capped":        func(r *share.Rate) { r.Cap(now, 0) },
	} {
		r := share.NewRate(now, "k", terms, 1, math.Inf(1), 0)
		r.Observer = ignore{}
		r.SetGrant(share.Grant{Given: true, Weight: 1, Burst: 10_000, Until: now.Add(time.Second)})
		if r.Lend(now, 10_000, 1); !r.Bucket().Stock(now) {
			t.Fatalf("%s: nothing was drawn of %+v", name, r.Level(now))
		}
		change(r)
		if n := r.Bucket().Cached(); n != 0 || r.TakeOne(now) {
			t.Errorf("%s: nothing should be left, and %d tokens are cached", name, n)
		}
	}
}

type ignore struct{}

func (ignore) RanLow(stage.Instant, bool) {}

func (ignore) Demand(stage.Instant) (wants, unit float64) { return 0, 1 }

func (ignore) Settled() (uint32, bool) { return 0, true }

func (ignore) Successor() *share.Rate { return nil }
