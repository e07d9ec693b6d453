// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

func TestEstimatesAreSettledWithWhatItCost(t *testing.T) {
	for name, tt := range map[string]struct {
		end     func(e *Estimate)
		left    float64
		allowed int64
	}{
		"as thought":     {func(e *Estimate) { e.settle(0, 6) }, 4, 6},
		"less":           {func(e *Estimate) { e.settle(0, 2) }, 8, 2},
		"nothing":        {func(e *Estimate) { e.settle(0, 0) }, 10, 0},
		"negative":       {func(e *Estimate) { e.settle(0, math.MinInt) }, 10, 0},
		"more":           {func(e *Estimate) { e.settle(0, 13) }, -3, 13},
		"cancelled":      {func(e *Estimate) { e.settle(0, 0) }, 10, 0},
		"never":          {func(*Estimate) {}, 4, 6},
		"twice":          {func(e *Estimate) { e.settle(0, 2); e.settle(0, 9); e.settle(0, 0) }, 8, 2},
		"cancel, settle": {func(e *Estimate) { e.settle(0, 0); e.settle(0, 9) }, 10, 0},
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
				return r, []Option{WithMigration(justOld)}
			},
		} {
			r, options := rule()
			g := NewGroup(snapshot(t, r), 1, options...)
			e := takeAt(g.For("k"), 0, 6, 0)
			if d := e.Decision(); !e.OK() || math.Abs(d.Left-4) > 1e-6 {
				t.Errorf("%s: %+v", kind, d)
			}
			tt.end(e)
			st, _ := g.Manual().Inspect(0, "k")
			if s := st.Shares[0]; math.Abs(s.Level.Tokens-tt.left) > 1e-6 || s.Allowed != tt.allowed {
				t.Errorf("%s, %s: %v tokens, allowed %d; want %v, %d", kind, name, s.Level.Tokens, s.Allowed, tt.left, tt.allowed)
			}
		}
	}
}

// justOld is a Migrator that only asks the old stage.
var justOld = stage.Migrator{Stages: func(_ stage.Instant, old, _ stage.Stage, _ dynamicconfig.Mode, _ func(func()) bool) stage.Migration {
	return onlyOld{old}
}}

type onlyOld struct{ stage.Stage }

func (onlyOld) SetMode(stage.Instant, dynamicconfig.Mode) {}

func (onlyOld) Reset() {}

func (onlyOld) Counts() stage.Divergence { return stage.Divergence{} }

func TestAnEstimateThatIsRefusedDoesNothing(t *testing.T) {
	g := NewGroup(snapshot(t, alone(10, 10)), 1)
	k := g.For("k")
	for _, n := range []int{11, -1} {
		e := takeAt(k, 0, n, 0)
		e.settle(0, 5)
		e.Cancel()
		if e.OK() || math.Abs(keyOf(k).Level(0).Tokens-10) > 1e-6 {
			t.Errorf("%d: %+v, %v tokens", n, e.Decision(), keyOf(k).Level(0).Tokens)
		}
	}
	if e := takeAt(g.For("other"), 0, 5, 0); !e.OK() {
		t.Errorf("%+v", e.Decision())
	} else {
		e.settle(0, 3)
	}
}

func TestAnEstimateAtARemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElsewhere(stage.Now)
		g := NewGroup(snapshot(t, exact(100)), 1, WithRemote("exact", e))
		left := func() float64 { g.keys().Join(); return e.buckets["k"].Tokens(stage.Now()) }
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

// If several callers settle an Estimate at once, one of them counts.
func TestSettleInParallel(t *testing.T) {
	g := NewGroup(snapshot(t, alone(1000, 1000)), 1)
	k := g.For("k")
	for range 100 {
		e := takeAt(k, 0, 5, 0)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { e.settle(0, 2) })
			all.Go(func() { e.settle(0, 0) })
		}
		all.Wait()
	}
	if got := keyOf(k).Level(0).Tokens; got < 800-1e-6 || got > 1000 || math.Mod(got+1e-6, 2) > 1e-3 {
		t.Errorf("%v tokens are left", got)
	}
}

// A caller whose Estimate another goroutine cancels meanwhile has no tokens, and Wait says so. After Settle, the
// event has happened.
func TestAWaitForWhatWasCancelledIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, tc := range []struct {
			name string
			end  func(*Estimate)
			want error
		}{
			{"cancelled", (*Estimate).Cancel, context.Canceled},
			{"settled", func(e *Estimate) { e.Settle(0) }, nil},
			{"settled, then cancelled", func(e *Estimate) { e.Settle(1); e.Cancel() }, nil},
		} {
			b := NewBucket(1, 1)
			b.Allow()
			e, waited := b.Take(t.Context(), 1, time.Second), make(chan error)
			go func() { waited <- e.Wait(t.Context()) }()
			synctest.Wait()
			tc.end(e)
			if err := <-waited; !errors.Is(err, tc.want) || e.Decision().Wait != time.Second {
				t.Errorf("%s: %v, for %+v", tc.name, err, e.Decision())
			}
		}
	})
}
