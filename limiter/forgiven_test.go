// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// A debt that a lower limit forgave stays forgiven once the limit is as it was, as after an
// override that ends.
func TestWhatALowerLimitForgaveDoesNotGoBackOnceItIsOver(t *testing.T) {
	for _, maxWait := range []time.Duration{0, 100 * time.Second} {
		for _, estimates := range []bool{false, true} {
			rule := alone(100, 10)
			rule.MaxWait = maxWait
			g := NewGroup(snapshot(t, rule), 1)
			k := g.For("k")
			var all []taken
			for range 1000 {
				all = append(all, reserve(t.Context(), keyOf(k), 0, 10, stage.Forever))
			}
			lower := rule
			lower.Limit = 10
			g.Manual().Configure(0, snapshot(t, lower))
			g.Manual().Configure(0, snapshot(t, rule))
			debt := -keyOf(k).Level(0).Tokens
			got := 0
			for i := range all {
				if estimates {
					all[i].settle(0, 0)
				} else {
					all[i].cancel(0)
				}
				got += take(k, 0, 100)
			}
			if most := int(rule.Burst); got > most {
				t.Errorf("max_wait %v, estimates %v: %d events at once out of a debt of %v, under a burst of %d", maxWait, estimates, got, debt, most)
			}
		}
	}
}

// The same holds where the owner decides, because its debts follow the limit too, and after a reset
// there.
func TestWhatIsForgivenElsewhereDoesNotGoBack(t *testing.T) {
	for _, resets := range []bool{false, true} {
		e, given := newElsewhere(func() stage.Instant { return 0 }), 0.0
		remote := remoteFunc(func(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
			if op.Kind == stage.ReturnTokens {
				given += op.N
			}
			return e.Do(ctx, op)
		})
		rule := exactKey("k")
		rule.Limit, rule.Burst = 100, 10
		g := NewGroup(snapshot(t, rule), 1, WithRemote("exact", remote), WithBackground(func(f func()) { f() }))
		var all []*taken
		for range 101 {
			all = append(all, reserveAt(g.For("k"), 0, 10, stage.Forever))
		}
		if resets {
			if err := g.Reset(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		} else {
			lower := rule
			lower.Limit = 10
			g.Manual().Configure(0, snapshot(t, lower))
			g.Manual().Configure(0, snapshot(t, rule))
		}
		for _, r := range all[1:] {
			r.settle(0, 0)
		}
		if most := map[bool]float64{true: 0, false: 100}[resets]; given > most {
			t.Errorf("reset %v: %v tokens go back, want at most %v", resets, given, most)
		}
	}
}

// The same holds after a lease that ended for a while.
func TestWhatALowerLevelForgaveDoesNotGoBackOnceItIsOver(t *testing.T) {
	rule := weighted(1000)
	rule.Burst = 10
	g := NewGroup(snapshot(t, rule), 10)
	k := g.For("k")
	allowAt(k, 0, 1)
	answer(t, g, second, 0.01, 0, usage.FloorNone, time.Second) // the fallback is faster
	var all []*taken
	for range 1000 {
		all = append(all, reserveAt(k, second, 1, stage.Forever))
	}
	now := 2 * second
	g.Manual().Report(now)
	answer(t, g, now+1, 0.01, 0, usage.FloorNone, time.Hour)
	before := keyOf(k).Level(now + 1)
	got := 0
	for _, r := range all[500:] {
		r.settle(now+1, 0)
		got += take(k, now+1, 100)
	}
	if before.Tokens > -90 || got > 0 {
		t.Errorf("%d events at once out of %+v, while 500 tokens are reserved", got, before)
	}
}

// A debt that was made at a grant's level is no part of what the fallback's level has owed
// since before.
func TestWhatAnotherLevelOwesDoesNotGoBack(t *testing.T) {
	rule := weighted(1)
	rule.Burst = 20
	g := NewGroup(snapshot(t, rule), 1)
	k := g.For("k")
	var all []*taken
	reserve := func(now stage.Instant) {
		for range 30 {
			all = append(all, reserveAt(k, now, 20, stage.Forever))
		}
	}
	reserve(0)
	b := g.Manual().Report(1)[0]
	if err := g.Manual().Apply(1, b, nil, grantOf(0.1, 20, time.Second)); err != nil {
		t.Fatal(err)
	}
	reserve(1)
	rule.Limit, rule.Algorithm = 0.01, Even
	g.Manual().Configure(1, snapshot(t, rule))
	got := 0
	for _, r := range all {
		r.settle(1, 0)
		got += take(k, 1, 100)
	}
	if got > 20 {
		t.Errorf("%d events at once under a burst of 20", got)
	}
}

// All of a debt that is left goes back, where a lower limit and a lower level came together.
func TestWhatIsLeftOfADebtGoesBack(t *testing.T) {
	rule := weighted(100)
	rule.Burst = 10
	g := NewGroup(snapshot(t, rule), 1)
	k := g.For("k")
	allowAt(k, 0, 1)
	b := g.Manual().Report(second)[0]
	if err := g.Manual().Apply(second, b, nil, grantOf(1, 10, time.Hour)); err != nil {
		t.Fatal(err)
	}
	var all []*taken
	for range 100 {
		all = append(all, reserveAt(k, second, 10, stage.Forever))
	}
	rule.Limit, rule.Algorithm = 10, Even
	g.Manual().Configure(second, snapshot(t, rule))
	before := keyOf(k).Level(second).Tokens
	for _, r := range all {
		r.settle(second, 0)
	}
	if after := keyOf(k).Level(second).Tokens; before > -90 || after < 0 {
		t.Errorf("%v tokens, and %v once all went back", before, after)
	}
}
