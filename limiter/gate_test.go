// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// refusedOf asks for n events beyond the limit and returns how many were refused.
func refusedOf(t *testing.T, enforce float64, seed uint64, n int) (refused int, which []bool) {
	t.Helper()
	r := alone(10, 10)
	r.Enforce = enforce
	g := NewGroup(snapshot(t, r), 1, WithSeed(seed))
	k := g.For("k")
	if got := take(k, 0, 10); got != 10 {
		t.Fatalf("enforce %v: %d of the limit", enforce, got)
	}
	for range n {
		ok := allowAt(k, 0, 1)
		which = append(which, ok)
		if !ok {
			refused++
		}
	}
	if tokens := keyOf(k).Level(0).Tokens; math.Abs(tokens) > 1e-6 {
		t.Errorf("enforce %v: what is let through takes tokens: %v", enforce, tokens)
	}
	if s := only(t, g, 0, "k"); s.Allowed != 10 || s.Rejected != int64(n) {
		t.Errorf("enforce %v: counted %d allowed, %d rejected", enforce, s.Allowed, s.Rejected)
	}
	return refused, which
}

func TestAPartIsEnforced(t *testing.T) {
	const n = 20_000
	for _, enforce := range []float64{dynamicconfig.Soft, 0.01, 0.25, 0.5, 0.999, 1} {
		want := max(enforce, 0) * n
		got, which := refusedOf(t, enforce, 1, n)
		if sigma := math.Sqrt(want * (1 - want/n)); math.Abs(float64(got)-want) > 4*sigma {
			t.Errorf("enforce %v: %d of %d refused, want %v", enforce, got, n, want)
		}
		_, again := refusedOf(t, enforce, 1, n)
		for i := range which {
			if which[i] != again[i] {
				t.Fatalf("enforce %v: another fate for event %d", enforce, i)
			}
		}
	}
}

func TestASoftLimitTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(10, 10)
		r.Enforce, r.MaxWait = dynamicconfig.Soft, time.Second
		g := NewGroup(snapshot(t, r), 1)
		k := g.For("k")
		if d := k.Decide(t.Context(), 10, 0); d.Reason != Granted {
			t.Errorf("%+v", d)
		}
		if d := k.Decide(t.Context(), 1, 0); !d.OK || d.Reason != Soft || d.Wait != 0 || d.RetryAfter != 0 || math.Abs(d.Left) > 1e-6 {
			t.Errorf("%+v", d)
		}
		if d := k.Decide(t.Context(), 11, 0); !d.OK || d.Reason != Soft {
			t.Errorf("too much: %+v", d)
		}
		if d := k.Decide(t.Context(), -1, 0); d.OK || d.Reason != InvalidCost {
			t.Errorf("negative: %+v", d)
		}
		if d := k.Decide(t.Context(), 5, -1); !d.OK || d.Wait != time.Second/2 || d.Reason != Granted {
			t.Errorf("who can wait does: %+v", d)
		}
		res := k.ReserveN(time.Now(), 10)
		if !res.OK() || res.Delay() != 0 {
			t.Errorf("a reservation: %v, %v", res.OK(), res.Delay())
		}
		res.Cancel()
		before := k.Tokens()
		e := k.Take(t.Context(), 10, 0)
		e.Settle(3)
		if !e.OK() || k.Tokens() != before {
			t.Errorf("an estimate that was let through: %v, %v tokens, then %v", e.OK(), before, k.Tokens())
		}
		e = k.Take(t.Context(), 5, 0)
		e.Settle(9)
		if e.Decision().Reason != Soft || k.Tokens() != before {
			t.Errorf("one that cost more: %+v, %v tokens, then %v", e.Decision(), before, k.Tokens())
		}
		began := time.Now()
		if err := k.WaitN(t.Context(), 10); err != nil || time.Since(began) > 0 {
			t.Errorf("waited %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := k.WaitN(ctx, 10); err == nil {
			t.Error("who has gone is let through")
		}
	})
}

func TestAChangeOfEnforceKeepsTheBucket(t *testing.T) {
	r := alone(10, 10)
	g := NewGroup(snapshot(t, r), 1)
	k := g.For("k")
	take(k, 0, 7)
	r.Enforce = dynamicconfig.Soft
	g.Manual().Configure(0, snapshot(t, r))
	if got := take(k, 0, 100); got != 100 || math.Abs(keyOf(k).Level(0).Tokens) > 1e-6 {
		t.Errorf("soft: %d allowed, %v tokens", got, keyOf(k).Level(0).Tokens)
	}
	r.Enforce = 1
	g.Manual().Configure(0, snapshot(t, r))
	if got := take(k, 0, 100); got != 0 || keyOf(k).Plain() == nil {
		t.Errorf("hard again: %d allowed", got)
	}
}

// Keys beyond max_keys are over a limit, too: a rule that is not enforced lets their events pass.
func TestASoftLimitRefusesNoKeyThatIsOneTooMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, scope := alone(10, 10), tally.NewTestScope("", nil)
		r.Key, r.MaxKeys, r.Enforce = "k*", 1, dynamicconfig.Soft
		g := NewGroup(snapshot(t, r), 1, WithScope(scope))
		g.For("k1").Allow()
		k := g.For("k2")
		d, e, res := k.Decide(t.Context(), 20, 0), k.Take(t.Context(), 3, 0), k.ReserveN(time.Now(), 4)
		if !d.OK || d.Reason != Soft || !e.OK() || !res.OK() || res.Delay() != 0 || !k.Allow() || k.WaitN(t.Context(), 5) != nil {
			t.Errorf("%+v, %+v, %v, %v", d, e.Decision(), res.OK(), res.Delay())
		}
		e.Settle(30)
		res.Cancel()
		if d := k.Decide(t.Context(), -1, 0); d.OK {
			t.Errorf("a negative cost: %+v", d)
		}
		g.Manual().Report(stage.Now())
		if n := counted(scope)["limiter.soft/k*/"]; n != 20+3+4+1+5 {
			t.Errorf("%d are counted as soft", n)
		}
		r.Enforce = 0.5
		g.Configure(snapshot(t, r))
		if got := take(k, stage.Now(), 1000); got < 400 || got > 600 {
			t.Errorf("%d of 1000, half of which are refused", got)
		}
		r.Enforce = 1
		g.Configure(snapshot(t, r))
		if d := k.Decide(t.Context(), 1, 0); d.OK || d.Reason != TooManyKeys {
			t.Errorf("a hard limit: %+v", d)
		}
	})
}
