// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/limiter/stage"
)

// A caller that leaves while its tokens are asked for does not act on the answer. The
// answer may come all the same, and the tokens go back.
func TestACallerThatLeavesBeforeTheAnswerGivesItsTokensBack(t *testing.T) {
	for name, tt := range map[string]struct {
		key  func(t *testing.T, now *stage.Instant) (*Group, *elsewhere, *Limiter)
		left float64
	}{
		"exact": {func(t *testing.T, now *stage.Instant) (*Group, *elsewhere, *Limiter) {
			e := newElsewhere(func() stage.Instant { return *now })
			g := NewGroup(snapshot(t, exact(10)), 1, WithRemote("exact", e))
			return g, e, g.For("k")
		}, 10},
		"auto without a grant": {func(t *testing.T, now *stage.Instant) (*Group, *elsewhere, *Limiter) {
			g, e := autoGroup(t, autoRule(10), now)
			return g, e, g.For("k")
		}, autoRule(10).Burst},
		"auto that lacks tokens": {func(t *testing.T, now *stage.Instant) (*Group, *elsewhere, *Limiter) {
			return grantedGroup(t, autoRule(1), now, 1, sure, 0)
		}, 19},
	} {
		for kind, of := range map[string]stage.Kind{"take": stage.Take, "final": stage.Final} {
			now := stage.Instant(0)
			g, e, k := tt.key(t, &now)
			k.Stage().Take(t.Context(), stage.Request{Now: now}) // so that it is in use
			before := only(t, g, now, "k").Allowed
			ctx, cancel := context.WithCancel(t.Context())
			e.delayed = cancel
			v, receipt := k.Stage().Take(ctx, stage.Request{Now: now, N: 4, Kind: of})
			g.keys().Join()
			if v.Reason != Canceled || receipt != (stage.Receipt{}) {
				t.Errorf("%s, %s: %+v, %+v", name, kind, v, receipt)
			}
			if got := e.buckets["k"].Tokens(now); math.Abs(got-tt.left) > 1e-6 {
				t.Errorf("%s, %s: %v tokens are left of %v", name, kind, got, tt.left)
			}
			if got := only(t, g, now, "k").Allowed - before; got != 0 {
				t.Errorf("%s, %s: %d count as used", name, kind, got)
			}
		}
	}
}

func TestACallerThatLeavesWhileItWaitsGivesItsTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(snapshot(t, alone(10, 10)), 1)
		k := g.For("k")
		if d, held := k.DecideWait(t.Context(), 10, stage.Forever); !d.OK || d.Wait != 0 || held != nil {
			t.Errorf("there is nothing to wait for: %+v, %v", d, held)
		}
		d, held := k.DecideWait(t.Context(), 5, stage.Forever)
		if !d.OK || d.Wait == 0 || held == nil {
			t.Fatalf("%+v, %v", d, held)
		}
		held.Cancel()
		held.Cancel()
		if got := k.Tokens(); math.Abs(got) > 1e-6 {
			t.Errorf("%v tokens are left, want 0", got)
		}
		if d, held := k.DecideWait(t.Context(), 5, 0); d.OK || held != nil {
			t.Errorf("refused: %+v, %v", d, held)
		}
	})
}
