// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// A cluster below a parent uses little of a limit, in events that are rare, or that cost more than
// its part of the burst. They pass, as they do in one bucket.
func TestRareAndCostlyEventsPassBelowAParent(t *testing.T) {
	type row struct {
		limit float64
		every time.Duration
		cost  int64
	}
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		for _, r := range []row{{100, 4 * s, 1}, {100, 4 * s, 5}, {100, 10 * s, 1}, {100, 14 * s, 50}, {10, 4 * s, 1}, {10, 10 * s, 10}, {1, 4 * s, 1}, {1, 10 * s, 1}} {
			rule := dynamicconfig.Rule{Limit: rate.Limit(r.limit), Burst: r.limit, Algorithm: algorithm.NameFairShare, Learning: dynamicconfig.None}
			above := leased(t, rule)
			rule.Algorithm, rule.Parent = name, true
			a := leased(t, rule)
			auto, events, refused, used := name == algorithm.NameAuto, 0, 0, int64(0)
			for now := time.Duration(0); now < 600*s; now += s / 10 {
				if now%r.every == 0 {
					events++
					used += r.cost
					if got := took(t, a, now, usage.Take{Tokens: float64(r.cost), Auto: auto}); got.Decided && !got.OK {
						refused++
					}
				}
				if now%(3*s) == s/2 {
					if auto { // what the owner allowed counts as rejected
						step(t, a, now, "h", reportOf(name, 0, used, 3*s, "k"))
					}
					used = 0
					a.GC(now)
					above.GC(now)
				}
				if asked := a.Parent().Ask(now, "region"); asked != nil {
					a.Parent().Hear(now, asked, above.Claim(now, asked), nil)
				}
			}
			if refused > events/10 {
				t.Errorf("%s: of %d events of cost %d, one in %v, under a limit of %v/s, %d are refused", name, events, r.cost, r.every, r.limit, refused)
			}
		}
	}
}

// The hosts of a cluster below a parent use a pool no more. The claims for it fall to nothing, and not
// for ever to a part of the one before: by a quarter at a time, and where hosts report what they want, at
// once to a hundredth of the limit.
func TestAPoolThatNoHostUsesIsClaimedForNoMore(t *testing.T) {
	for _, name := range []string{algorithm.NameAuto, algorithm.NameElastic} {
		a := below(t, dynamicconfig.Rule{Algorithm: name})
		asked, last := 0, 1.0
		for now := time.Duration(0); now < 800*s; now += s {
			used := int64(0)
			if now < 20*s {
				used = 40
			}
			step(t, a, now, "h", reportOf(name, used, 0, s, "k"))
			if now%(8*s) == s {
				c := answered(t, a, now, lease(50))
				asked++
				last = 0
				for _, b := range c.Bands {
					last += b.Wants
				}
				if want := map[string]float64{algorithm.NameAuto: 30, algorithm.NameElastic: 10}[name]; now == 25*s && !near(last, want) {
					t.Errorf("%s: at first, it claims %v, want %v", name, last, want)
				}
			}
			a.GC(now)
		}
		if last != 0 {
			t.Errorf("%s: after %d claims, it wants %v of the cluster above", name, asked, last)
		}
	}
}
