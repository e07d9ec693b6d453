// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"math"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
)

// alone is a rule of one host, without a decider.
func alone(limit rate.Limit, burst float64) dynamicconfig.Rule {
	return dynamicconfig.Rule{Key: "k", Limit: limit, Burst: burst, Algorithm: Even}
}

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
		before := g.For("k").Level(Instant(a.at)).Tokens
		d := g.For("k").DecideAt(t.Context(), Instant(a.at), a.n, a.longest)
		if d.Reason != a.want || d.Wait != a.wait || d.RetryAfter != a.retry || d.OK != (a.want == Granted || a.want == Soft) {
			t.Errorf("ask %d: %d at %v within %v: %+v, want %v, wait %v, retry %v", i, a.n, a.at, a.longest, d, a.want, a.wait, a.retry)
		}
		after := g.For("k").Level(Instant(a.at)).Tokens
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
		if k.AllowAt(0, most+most/1000+1) || !k.AllowAt(0, most) {
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
		if ok := k.ReserveAt(0, n, longestWait).OK(); ok != (i < 2) {
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
	if err := NewGroup(snapshot(t, r), 1).For("k").Wait(t.Context()); !errors.Is(err, ErrNever) {
		t.Errorf("Wait = %v", err)
	}
}

func TestARuleThatChangesKeepsTheBucket(t *testing.T) {
	plain, debt := alone(10, 10), alone(10, 10)
	debt.MaxDebt = time.Second
	g := NewGroup(snapshot(t, plain), 1)
	k := g.For("k")
	k.AllowAt(0, 8)
	g.Configure(0, snapshot(t, debt))
	if !k.AllowAt(0, 10) || k.AllowAt(0, 1) {
		t.Error("it cannot borrow, or never stops")
	}
	g.Configure(0, snapshot(t, plain))
	if got := k.Level(0).Tokens; math.Abs(got+8) > 1e-6 {
		t.Errorf("%v tokens", got)
	}
	if k.share.Load() == nil {
		t.Error("a plain rule takes the long way")
	}
}

// fractions is a bucket of exact fractions.
type fractions struct{ tokens, limit, burst, at *big.Rat }

func ratOf(f float64) *big.Rat { return new(big.Rat).SetFloat64(f) }

func (b *fractions) fill(now int64) {
	t := big.NewRat(now, 1e9)
	b.tokens.Add(b.tokens, new(big.Rat).Mul(new(big.Rat).Sub(t, b.at), b.limit))
	b.at = t
	if b.tokens.Cmp(b.burst) > 0 {
		b.tokens.Set(b.burst)
	}
}

// Whatever the trace, a bucket with debt has what a bucket of exact fractions
// has, but for what a token is rounded up by: none is ever lost.
func TestDebtIsThatOfExactFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := math.Pow(10, rapid.Float64Range(-3, 6).Draw(t, "log10 limit"))
		burst := math.Floor(math.Pow(10, rapid.Float64Range(0, 12).Draw(t, "log10 burst")))
		burst = max(min(burst, limit*1e8), 1)
		debt := time.Duration(math.Pow(10, rapid.Float64Range(6, 13.9).Draw(t, "log10 max_debt")))
		var b bucket
		p := newPace(rate.Limit(limit), burst)
		b.init(p)
		exact := &fractions{tokens: ratOf(burst), limit: ratOf(limit), burst: ratOf(burst), at: new(big.Rat)}
		rounding := 2/float64(p.quanta()) + 1e-12
		now, passed := int64(0), 0.0
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			gap := int64(math.Pow(10, rapid.Float64Range(0, 11).Draw(t, "log10 gap")))
			now, passed = now+gap, passed+float64(gap)/1e9
			n := int64(math.Pow(10, rapid.Float64Range(0, 6).Draw(t, "log10 n")))
			longest := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "longest"))
			exact.fill(now)
			have, _ := exact.tokens.Float64()
			slack := rounding*(passed*limit+burst+debt.Seconds()*limit+float64(n)) + 1e-6*limit*1e-3 + 1e-9*math.Abs(have) + 64/float64(p.quanta())
			if got := b.tokens(Instant(now)); math.Abs(got-have) > slack {
				t.Fatalf("%v tokens, exactly %v (slack %v)", got, have, slack)
			}
			owed, after := -have, float64(n)-have
			near := math.Abs(owed-longest.Seconds()*limit) < slack || math.Abs(after-debt.Seconds()*limit) < slack+debt.Seconds()*limit/64 || math.Abs(owed) < slack
			want := owed <= longest.Seconds()*limit && after <= debt.Seconds()*limit
			wait, _, ok := b.owe(Instant(now), n, longest, debt)
			if ok != want && !near {
				t.Fatalf("owe(%d) of %v tokens within %v, debt %v: %v", n, have, longest, debt, ok)
			}
			if ok {
				if math.Abs(wait.Seconds()*limit-max(owed, 0)) > slack {
					t.Fatalf("waits %v with a debt of %v at %v/s", wait, owed, limit)
				}
				exact.tokens.Sub(exact.tokens, big.NewRat(n, 1))
			}
		}
	})
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
			for k.AllowAt(Instant(now), 1) {
				got++
			}
		}
		if want := 20*limit + burst + 1; math.Abs(float64(got)-want) > 1.01+limit*step.Seconds() {
			t.Errorf("limit %v: %d in 20 s, want %v", limit, got, want)
		}
	}
}

func TestExtremeTermsDoNoHarm(t *testing.T) {
	for _, limit := range []rate.Limit{0, 1e-12, 1e-3, 1, 1e12, rate.Inf} {
		for _, burst := range []float64{0, 1, 1e12, math.MaxFloat64} {
			for _, debt := range []time.Duration{1, time.Second, 24 * time.Hour, math.MaxInt64} {
				for _, n := range []int64{0, 1, 1e12, 9e18, math.MaxInt64, -1, math.MinInt64} {
					var b bucket
					b.init(newPace(limit, burst))
					for range 3 {
						before := b.tokens(0)
						wait, retry, ok := b.owe(0, n, longestWait, debt)
						if after := b.tokens(0); math.IsNaN(after) || after > before || wait < 0 || retry < 0 || !ok && after != before || ok && n < 0 {
							t.Fatalf("limit %v burst %v debt %v: owe(%d) = %v %v %v, %v tokens, then %v", limit, burst, debt, n, wait, retry, ok, before, after)
						}
					}
				}
			}
		}
	}
}
