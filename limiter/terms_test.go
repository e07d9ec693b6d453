// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/limiter/stage"
)

// ask is one line of a trace of Decide.
type ask struct {
	at      time.Duration
	n       int
	longest time.Duration // of the caller
	want    Reason
	wait    time.Duration
	retry   time.Duration
}

func trace(t *testing.T, g *Group, asks []ask) {
	t.Helper()
	for i, a := range asks {
		before := keyOf(g.For("k")).Level(stage.Instant(a.at)).Tokens
		d := decideAt(g.For("k"), stage.Instant(a.at), a.n, a.longest)
		if d.Reason != a.want || d.Wait != a.wait || d.RetryAfter != a.retry || d.OK != (a.want == Granted || a.want == Soft) {
			t.Errorf("ask %d: %d at %v within %v: %+v, want %v, wait %v, retry %v", i, a.n, a.at, a.longest, d, a.want, a.wait, a.retry)
		}
		after := keyOf(g.For("k")).Level(stage.Instant(a.at)).Tokens
		taken := 0.0
		if a.want == Granted {
			taken = float64(a.n)
		}
		if math.Abs(before-after-taken) > 1e-6 || math.Abs(d.Left-after) > 1e-6 {
			t.Errorf("ask %d: %v tokens before, %v after, told %v", i, before, after, d.Left)
		}
	}
}

func TestDebtIsPaidByTheNext(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	r := alone(5, 10)
	r.MaxCost, r.MaxWait, r.MaxDebt = 5, s, 10*s
	trace(t, NewGroup(snapshot(t, r), 1), []ask{
		{0, 5, -1, Granted, 0, 0},
		{0, 5, -1, Granted, 0, 0},
		{0, 6, -1, TooCostly, 0, 0},
		{0, 5, -1, Granted, 0, 0},              // borrows
		{0, 5, 500 * ms, Limited, 0, 500 * ms}, // the caller may ask for less
		{1 * ms, 5, -1, Granted, 999 * ms, 0},
		{1 * ms, 5, -1, Limited, 0, 999 * ms},
		{1 * ms, 5, time.Hour, Limited, 0, 999 * ms}, // and not for more
		{1 * ms, 0, -1, Limited, 0, 999 * ms},
		{1 * ms, -1, -1, InvalidCost, 0, 0},
		{1000 * ms, 5, -1, Granted, s, 0},
		{3000 * ms, 1, 0, Granted, 0, 0}, // out of debt: Allow
		{3000 * ms, 1, 0, Limited, 0, 200 * ms},
	})
}

func TestDebtIsBounded(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	r := alone(10, 10)
	r.MaxCost, r.MaxDebt = 100, 500*ms
	trace(t, NewGroup(snapshot(t, r), 1), []ask{
		{0, 16, -1, Limited, 0, 0}, // a full bucket would not do
		{0, 15, -1, Granted, 0, 0},
		{0, 1, 0, Limited, 0, 500 * ms},
		{0, 1, -1, Limited, 0, 100 * ms},
		{100 * ms, 1, -1, Granted, 400 * ms, 0},
		{700 * ms, 5, -1, Granted, 0, 0},
	})
	// Also where a token is no whole number of nanoseconds.
	for _, limit := range []rate.Limit{1.0 / 3, 3, 7, 300, 3e3, 7e6} {
		r := alone(limit, 1)
		r.MaxCost, r.MaxDebt = 1e9, 12*s
		k := NewGroup(snapshot(t, r), 1).For("k")
		most := int(math.Round(float64(limit)*12)) + 1
		if allowAt(k, 0, most+most/1000+1) || !allowAt(k, 0, most) {
			t.Errorf("limit %v: not just %d tokens", limit, most)
		}
	}
}

func TestMaxWaitBoundsEveryWait(t *testing.T) {
	const s = time.Second
	r := alone(10, 10)
	r.MaxWait = s
	trace(t, NewGroup(snapshot(t, r), 1), []ask{
		{0, 11, -1, TooCostly, 0, 0},
		{0, 10, -1, Granted, 0, 0},
		{0, 1, 0, Limited, 0, s / 10},
		{0, 5, -1, Granted, s / 2, 0},
		{0, 6, time.Hour, Limited, 0, s / 10},
		{0, 5, -1, Granted, s, 0},
		{s, 10, -1, Granted, s, 0},
	})
	k := NewGroup(snapshot(t, r), 1).For("k")
	for i, n := range []int{10, 10, 1} {
		if ok := reserveAt(k, 0, n, stage.Forever).OK(); ok != (i < 2) {
			t.Errorf("reservation %d: %v", i, ok)
		}
	}
	r.MaxWait = dynamicconfig.None
	trace(t, NewGroup(snapshot(t, r), 1), []ask{{0, 10, -1, Granted, 0, 0}, {0, 1, -1, Limited, 0, s / 10}})
}

func TestWaitUnderTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(10, 10)
		r.MaxWait, r.MaxDebt, r.MaxCost = time.Second, time.Minute, 20
		k := NewGroup(snapshot(t, r), 1).For("k")
		wait := func(n int, within, takes time.Duration, want error) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			began := time.Now()
			if err := k.WaitN(ctx, n); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("WaitN(%d) = %v, want %v", n, err, want)
			}
			if took := time.Since(began).Round(time.Millisecond); took != takes {
				t.Errorf("WaitN(%d) took %v, want %v", n, took, takes)
			}
		}
		wait(21, time.Hour, 0, ErrNever)
		wait(20, time.Hour, 0, nil) // borrows 10
		wait(1, time.Second/2, 0, context.DeadlineExceeded)
		wait(20, time.Hour, time.Second, nil)
		wait(20, time.Hour, 0, ErrTooLong)
		time.Sleep(time.Second)
		wait(1, time.Hour, time.Second, nil)
	})
}

func TestWaitWhereNothingIsAllowed(t *testing.T) {
	r := weighted(10)
	r.MaxCost, r.Fallback = 5, dynamicconfig.FallbackClosed
	if err := NewGroup(snapshot(t, r), 1).For("k").Wait(t.Context()); !errors.Is(err, ErrFailed) {
		t.Errorf("Wait = %v", err)
	}
}

func TestARuleThatChangesKeepsTheBucket(t *testing.T) {
	plain, debt := alone(10, 10), alone(10, 10)
	debt.MaxDebt = time.Second
	g := NewGroup(snapshot(t, plain), 1)
	k := g.For("k")
	allowAt(k, 0, 8)
	g.Manual().Configure(0, snapshot(t, debt))
	if !allowAt(k, 0, 10) || allowAt(k, 0, 1) {
		t.Error("it cannot borrow, or never stops")
	}
	g.Manual().Configure(0, snapshot(t, plain))
	if got := keyOf(k).Level(0).Tokens; math.Abs(got+8) > 1e-6 {
		t.Errorf("%v tokens", got)
	}
	if keyOf(k).Plain() == nil {
		t.Error("a plain rule takes the long way")
	}
}

// Fractions of tokens that come in between calls add up: ten a second are ten
// a second, whoever asks how often.
func TestNoFractionIsDiscarded(t *testing.T) {
	for _, limit := range []float64{10, 3, 0.7, 333, 12345.678} {
		burst := math.Ceil(limit / 100)
		r := alone(rate.Limit(limit), burst)
		r.MaxDebt = time.Second
		k := NewGroup(snapshot(t, r), 1).For("k")
		got := 0
		const step = 997 * time.Microsecond
		for now := time.Duration(0); now < 20*time.Second; now += step {
			for allowAt(k, stage.Instant(now), 1) {
				got++
			}
		}
		if want := 20*limit + burst + 1; math.Abs(float64(got)-want) > 1.01+limit*step.Seconds() {
			t.Errorf("limit %v: %d in 20 s, want %v", limit, got, want)
		}
	}
}

// One wrong charge does not close a key for years, whatever the algorithm.
func TestAChargeLeavesABoundedDebt(t *testing.T) {
	for _, tt := range []struct {
		debt, wait time.Duration
		cost       float64
		deepest    float64
	}{
		{0, 0, 0, -20},
		{3 * time.Second, time.Second, 500, -540},
		{0, 2 * time.Second, 5, -35},
	} {
		for _, algorithm := range []string{Even, "elastic", "exact"} {
			var now stage.Instant
			r := alone(10, 10)
			r.Algorithm, r.MaxDebt, r.MaxWait, r.MaxCost = algorithm, tt.debt, tt.wait, tt.cost
			e := newElsewhere(func() stage.Instant { return now })
			e.err = errors.New("away") // the fallback's bucket is a bucket too
			g := NewGroup(snapshot(t, r), 1, WithRemote("exact", e), WithBackground(func(f func()) { f() }))
			k := g.For("k")
			decideAt(k, now, 1, 0)
			for range 3 {
				charge(keyOf(k), now, math.MaxInt64)
				if left := keyOf(k).Level(now).Tokens; !near(left, tt.deepest) {
					t.Errorf("%s, %+v: %v tokens", algorithm, tt, left)
				}
			}
		}
	}
}

// meshAt is a Mesh at an instant of the test's.
type meshAt struct {
	*mesh.Mesh
	now *stage.Instant
}

func (m meshAt) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	return m.DoAt(*m.now, op)
}

// A debt does not take longer to pay because the limit is lower now.
func TestALowerLimitDoesNotCloseAKeyForYears(t *testing.T) {
	for _, algorithm := range []string{Even, "request-weighted", "elastic", mesh.Name} {
		for _, vanishes := range []bool{false, true} {
			now := 1000 * second
			r := dynamicconfig.Rule{Key: "k", Limit: 1000, Algorithm: algorithm}
			m := meshAt{mesh.New("host", nil, mesh.Config{}), &now}
			g := NewGroup(snapshot(t, r), 1, WithRemote(mesh.Name, m), WithBackground(func(f func()) { f() }))
			k := g.For("k")
			keyOf(k).Level(now)
			answer(t, g, now+1, 1, 0, 0, time.Hour)
			charge(keyOf(k), now, 1e6)
			if vanishes {
				other := r
				other.Key = "other"
				g.Manual().Configure(now, snapshot(t, other))
			}
			r.Limit = 1.0 / 60
			g.Manual().Configure(now, snapshot(t, r))
			if d := decideAt(k, now, 1, 0); d.OK || d.RetryAfter > 3*time.Minute {
				t.Errorf("%s, vanishes %v: %+v", algorithm, vanishes, d)
			}
		}
	}
}
