// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

func TestEstimatesAreSettledWithWhatItCost(t *testing.T) {
	for name, tt := range map[string]struct {
		end     func(e *Estimate)
		left    float64
		allowed int64
	}{
		"as thought":     {func(e *Estimate) { e.SettleAt(0, 6) }, 4, 6},
		"less":           {func(e *Estimate) { e.SettleAt(0, 2) }, 8, 2},
		"nothing":        {func(e *Estimate) { e.SettleAt(0, 0) }, 10, 0},
		"negative":       {func(e *Estimate) { e.SettleAt(0, math.MinInt) }, 10, 0},
		"more":           {func(e *Estimate) { e.SettleAt(0, 13) }, -3, 13},
		"cancelled":      {(*Estimate).Cancel, 10, 0},
		"never":          {func(*Estimate) {}, 4, 6},
		"twice":          {func(e *Estimate) { e.SettleAt(0, 2); e.SettleAt(0, 9); e.Cancel() }, 8, 2},
		"cancel, settle": {func(e *Estimate) { e.Cancel(); e.SettleAt(0, 9) }, 10, 0},
	} {
		for kind, rule := range map[string]func() (dynamicconfig.Rule, []Option){
			"plain": func() (dynamicconfig.Rule, []Option) { return alone(10, 10), nil },
			"terms": func() (dynamicconfig.Rule, []Option) {
				r := alone(10, 10)
				r.MaxDebt = time.Second
				return r, nil
			},
			"gated": func() (dynamicconfig.Rule, []Option) {
				r := alone(10, 10)
				r.Enforce = 0.5
				return r, nil
			},
			"remote that is away": func() (dynamicconfig.Rule, []Option) {
				return exact(10), []Option{WithRemote("exact", &elsewhere{err: errors.New("away")})}
			},
			"migrating": func() (dynamicconfig.Rule, []Option) {
				r := alone(10, 10)
				r.Algorithm, r.Migration = "", &dynamicconfig.Migration{From: "even", To: "mine", Mode: dynamicconfig.ModeOldShadowNew}
				return r, []Option{WithMigration(func(old, _ Stepper, mode dynamicconfig.Mode) Migrator { return justOld{old} })}
			},
		} {
			r, options := rule()
			g := NewGroup(snapshot(t, r), 1, options...)
			e := g.For("k").TakeAt(t.Context(), 0, 6, 0)
			if d := e.Decision(); !e.OK() || math.Abs(d.Left-4) > 1e-6 {
				t.Errorf("%s: %+v", kind, d)
			}
			tt.end(e)
			st, _ := g.Inspect(0, "k")
			if s := st.Shares[0]; math.Abs(s.Level.Tokens-tt.left) > 1e-6 || s.Allowed != tt.allowed {
				t.Errorf("%s, %s: %v tokens, allowed %d; want %v, %d", kind, name, s.Level.Tokens, s.Allowed, tt.left, tt.allowed)
			}
		}
	}
}

// justOld is a Migrator that asks only one, with Reservations of its own.
type justOld struct{ Stepper }

func (j justOld) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	return struct{ Reservation }{j.Stepper.ReserveAt(now, n, longest)}
}

func (justOld) SetMode(Instant, dynamicconfig.Mode) {}

func TestAnEstimateThatIsRefusedDoesNothing(t *testing.T) {
	g := NewGroup(snapshot(t, alone(10, 10)), 1)
	k := g.For("k")
	for _, n := range []int{11, -1} {
		e := k.TakeAt(t.Context(), 0, n, 0)
		e.SettleAt(0, 5)
		e.Cancel()
		if e.OK() || math.Abs(k.Level(0).Tokens-10) > 1e-6 {
			t.Errorf("%d: %+v, %v tokens", n, e.Decision(), k.Level(0).Tokens)
		}
	}
	if e := g.For("other").TakeAt(t.Context(), 0, 5, 0); !e.OK() {
		t.Errorf("%+v", e.Decision())
	} else {
		e.SettleAt(0, 3)
	}
}

func TestAnEstimateAtARemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElsewhere(Now)
		g := NewGroup(snapshot(t, exact(100)), 1, WithRemote("exact", e))
		left := func() float64 { g.join(); return e.buckets["k"].tokens(Now()) }
		a, b, c := g.For("k").Take(t.Context(), 10, 0), g.For("k").Take(t.Context(), 10, 0), g.For("k").Take(t.Context(), 10, 0)
		if got := left(); math.Abs(got-70) > 1e-6 {
			t.Errorf("%v left", got)
		}
		a.Settle(3)
		b.Settle(25)
		c.Cancel()
		if got := left(); math.Abs(got-72) > 1e-6 {
			t.Errorf("%v left, want 100 - 3 - 25", got)
		}
	})
}

// However many settle at once, just one of them counts.
func TestSettleInParallel(t *testing.T) {
	g := NewGroup(snapshot(t, alone(1000, 1000)), 1)
	k := g.For("k")
	for range 100 {
		e := k.TakeAt(t.Context(), 0, 5, 0)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { e.SettleAt(0, 2) })
			all.Go(e.Cancel)
		}
		all.Wait()
	}
	if got := k.Level(0).Tokens; got < 800-1e-6 || got > 1000 || math.Mod(got+1e-6, 2) > 1e-3 {
		t.Errorf("%v tokens are left", got)
	}
}
