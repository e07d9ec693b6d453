// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A request that is refused takes nothing from the *rate.Limiter, not even for
// a moment. A reservation that is cancelled would: at an older time, it even
// adds tokens.
func TestARefusedWaitLeavesTheRateLimiterAsItIs(t *testing.T) {
	l := rate.NewLimiter(10, 2)
	s := limiter.FromRate(l).Stage()
	t0 := time.Now()
	t1 := t0.Add(100 * time.Millisecond)
	l.AllowN(t1, 2)
	r := stage.Request{Now: stage.At(t0), N: 2, Longest: 100 * time.Millisecond}
	if v, _ := s.Take(context.Background(), r); v.Reason != stage.Limited || v.RetryAfter != 100*time.Millisecond {
		t.Errorf("got %+v", v)
	}
	if got := l.TokensAt(t1); got != 0 {
		t.Errorf("%v tokens, want 0", got)
	}
}

// A *rate.Limiter of limit zero never gets tokens. A wait for them does not
// last for ever, and a reservation leaves no debt.
func TestARateLimiterOfLimitZeroRefusesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := rate.NewLimiter(0, 1)
		l := limiter.FromRate(of)
		if !l.Reserve().OK() {
			t.Error("the first token is there")
		}
		if err := l.Wait(context.Background()); !errors.Is(err, limiter.ErrNever) {
			t.Errorf("got %v, want %v", err, limiter.ErrNever)
		}
		if l.Reserve().OK() {
			t.Error("got a token that will never be there")
		}
		if got := of.Tokens(); got != 0 {
			t.Errorf("%v tokens, want 0", got)
		}
	})
}

// A *rate.Limiter without a limit has no tokens to count, and infinitely many.
func TestALimiterThatTakesOverFromAnUnlimitedOneIsFull(t *testing.T) {
	old := limiter.FromRate(rate.NewLimiter(rate.Inf, 0))
	if got := old.Tokens(); !math.IsInf(got, 1) {
		t.Errorf("%v tokens, want infinitely many", got)
	}
	both := shadow.New(old, limiter.NewBucket(1, 5), dynamicconfig.ModeOld)
	both.SetMode(dynamicconfig.ModeNew)
	if !both.AllowN(time.Now(), 5) {
		t.Error("the new limiter began without tokens")
	}
}

// A *rate.Limiter gives back more than a reservation took when one before it was
// cancelled. FromRate does not.
func TestNoMoreGoesBackToARateLimiterThanWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.FromRate(rate.NewLimiter(0.5, 20))
		l.Charge(29)
		first, second := l.ReserveN(time.Now(), 20), l.ReserveN(time.Now(), 2)
		first.Cancel()
		first.Cancel()
		l.Charge(1)
		time.Sleep(61*time.Second + 10*time.Microsecond)
		before := l.Tokens()
		second.Cancel()
		if got := l.Tokens() - before; got > 2+1e-6 {
			t.Errorf("%v tokens go back of 2, from %v", got, before)
		}
	})
}

// A *rate.Limiter without a limit gives events no tokens, so none come back once it has a limit.
func TestNothingGoesBackToARateLimiterThatHadNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := rate.NewLimiter(rate.Inf, 50)
		l := limiter.FromRate(of)
		canceled, settled, reserved := l.Take(t.Context(), 30, 0), l.Take(t.Context(), 30, 0), l.ReserveN(time.Now(), 30)
		of.SetLimit(1)
		of.AllowN(time.Now(), 50)
		canceled.Cancel()
		settled.Settle(10)
		reserved.Cancel()
		if got := of.Tokens(); got > 0 {
			t.Errorf("%v tokens are there after 50 of 50", got)
		}
	})
}

// The times of a *rate.Limiter's reservations are whole nanoseconds, in which a fast one fills in a
// part of a token. That costs the holder of a cancelled reservation no token.
func TestACancelGivesAFastRateLimiterWhatNobodyReservedOnTop(t *testing.T) {
	for _, limit := range []rate.Limit{3, 1e3, 3e4, 1e6, 3e7} {
		for passed := range time.Duration(9) {
			synctest.Test(t, func(t *testing.T) {
				of := rate.NewLimiter(limit, 5)
				l := limiter.FromRate(of)
				of.AllowN(time.Now(), 5)
				first := l.ReserveN(time.Now(), 4)
				time.Sleep(passed)
				of.ReserveN(time.Now(), 1)
				before := of.Tokens()
				first.Cancel()
				if got := of.Tokens() - before; math.Abs(got-3) > 0.5 {
					t.Errorf("at %v/s after %v, %v tokens go back of 4, on top of which 1 was reserved", limit, passed, got)
				}
			})
		}
	}
}

// An event that costs less than was taken is over when that is known. So its time to act is
// over, too, after which a *rate.Limiter's own Cancel gives nothing back.
func TestWhatAnEventDidNotCostGoesBackToARateLimiter(t *testing.T) {
	for name, between := range map[string]func(l *rate.Limiter) (used float64){
		"nobody else comes": func(*rate.Limiter) float64 { return 0 },
		"others come": func(l *rate.Limiter) float64 {
			l.AllowN(time.Now().Add(-time.Millisecond), 2)
			return 2
		},
		"the limit rises": func(l *rate.Limiter) float64 {
			l.SetLimit(3)
			return 0
		},
	} {
		for _, actual := range []int{0, 3} {
			synctest.Test(t, func(t *testing.T) {
				of := rate.NewLimiter(1, 20)
				e := limiter.FromRate(of).Take(t.Context(), 8, 0)
				time.Sleep(2 * time.Millisecond)
				left := 20 - between(of) - float64(actual)
				e.Settle(actual)
				if got := of.Tokens(); got > left+0.01 || got < left-0.01 && name != "the limit rises" || got < left-1 {
					t.Errorf("%s: %v tokens of 20 are left of an event that cost %d of 8, want %v", name, got, actual, left)
				}
			})
		}
	}
}

// What comes back never makes the tokens of a *rate.Limiter fewer, nor more than those that were not used, whatever
// its limit and burst are by then.
func TestASettleUnderAnotherLimitOrBurstTakesAndGivesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		change        func(l *rate.Limiter)
		first, others int // that others take before, and afterwards
		take, actual  int
		after         time.Duration
	}{
		"a lower limit":             {func(l *rate.Limiter) { l.SetLimit(0.5) }, 0, 0, 11, 10, 500 * time.Millisecond},
		"a limit of zero":           {func(l *rate.Limiter) { l.SetLimit(0) }, 0, 2, 11, 10, 500 * time.Millisecond},
		"a higher limit":            {func(l *rate.Limiter) { l.SetLimit(1000) }, 0, 2, 11, 10, 500 * time.Millisecond},
		"a burst of zero":           {func(l *rate.Limiter) { l.SetBurst(0) }, 20, 0, 9, 3, 0},
		"a burst of zero, canceled": {func(l *rate.Limiter) { l.SetBurst(0) }, 20, 3, 9, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			of := rate.NewLimiter(10, 20)
			of.AllowN(time.Now(), tt.first)
			e := limiter.FromRate(of).Take(t.Context(), tt.take, -1)
			of.ReserveN(time.Now(), tt.others)
			time.Sleep(tt.after)
			tt.change(of)
			before := of.Tokens()
			e.Settle(tt.actual)
			if got := of.Tokens() - before; got < -1e-6 || got > float64(tt.take-tt.actual)+1e-6 {
				t.Errorf("%s: %v tokens come back of an event that cost %d of %d, from %v", name, got, tt.actual, tt.take, before)
			}
		})
	}
}

// Several limits are taken all or none, with a *rate.Limiter too.
func TestARateLimiterKeepsWhatAnotherLimitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := rate.NewLimiter(1, 10)
		slow := limiter.FromStage(later{limiter.NewBucket(0, 0).Stage()})
		for range 20 {
			if limiter.AllowAll(t.Context(), limiter.Cost{Limiter: limiter.FromRate(of), N: 3}, limiter.Cost{Limiter: slow, N: 1}) {
				t.Fatal("an empty bucket allows an event")
			}
		}
		if got := of.Tokens(); got < 10-1e-6 {
			t.Errorf("%v tokens of 10 are left, and nothing was allowed", got)
		}
	})
}

// later is a stage.Stage that takes a while to answer.
type later struct{ stage.Stage }

func (l later) Take(ctx context.Context, r stage.Request) (stage.Verdict, stage.Receipt) {
	time.Sleep(time.Millisecond)
	return l.Stage.Take(ctx, r)
}

func TestAChargeOfMuchLeavesASmallDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, l := range map[string]interface {
			Charge(n int)
			Tokens() float64
		}{"FromRate": limiter.FromRate(rate.NewLimiter(10, 5)), "NewBucket": limiter.NewBucket(10, 5)} {
			for range 2 {
				l.Charge(1 << 30)
				if left := l.Tokens(); math.Abs(left+10) > 1e-3 {
					t.Errorf("%s: %v tokens", name, left)
				}
			}
		}
	})
}

// A limiter made of a rate.Limiter has no hosts to share its burst with, and its errors name none.
func TestFromRateSaysThatTheCostExceedsItsBurst(t *testing.T) {
	err := limiter.FromRate(rate.NewLimiter(10, 5)).WaitN(t.Context(), 6)
	if !errors.Is(err, limiter.ErrNever) || !strings.Contains(err.Error(), "the cost exceeds the limiter's burst, 5:") {
		t.Errorf("%v", err)
	}
}

// Settle gives back as many tokens while other callers take some as it does alone, so that all callers together
// get no more than one bucket has.
func TestWhatAnEventDidNotCostGoesBackOnceWhileOthersTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes while they run
		const burst = 200_000
		of := rate.NewLimiter(1, burst)
		l := limiter.FromRate(of)
		var others sync.WaitGroup
		var ended atomic.Bool
		var taken atomic.Int64
		for range 3 {
			others.Go(func() {
				for !ended.Load() && of.Tokens() > burst/2 { // there are always tokens for what was used
					if of.Allow() {
						taken.Add(1)
					}
				}
			})
		}
		const events, n, used = 10_000, 9, 4
		for range events {
			l.Take(t.Context(), n, 0).Settle(used)
		}
		ended.Store(true)
		others.Wait()
		if got, want := of.Tokens(), float64(burst-taken.Load()-events*used); math.Abs(got-want) > 0.01 {
			t.Errorf("%v tokens are left, want %v: %d were taken by others", got, want, taken.Load())
		}
	})
}

// A *rate.Limiter whose limit is NaN, which is 0/0 in somebody's arithmetic, allows everything. So
// does the Limiter made from it, whichever method its caller uses.
func TestARateLimiterWithoutANumberIsTheSame(t *testing.T) {
	old := rate.NewLimiter(rate.Limit(math.NaN()), 5)
	l := limiter.FromRate(old)
	for range 3 {
		if !old.AllowN(time.Now(), 4) || !old.ReserveN(time.Now(), 4).OK() || old.WaitN(t.Context(), 4) != nil {
			t.Fatal("the *rate.Limiter refuses")
		}
		if !l.AllowN(time.Now(), 4) {
			t.Error("AllowN refuses")
		}
		if r := l.ReserveN(time.Now(), 4); !r.OK() || r.Delay() != 0 {
			t.Errorf("ReserveN: %v", r.Delay())
		}
		if err := l.WaitN(t.Context(), 4); err != nil {
			t.Error(err)
		}
		if d := l.Decide(t.Context(), 4, time.Second); !d.OK {
			t.Errorf("Decide: %+v", d)
		}
		e := l.Take(t.Context(), 4, 0)
		if e.Settle(2); !e.OK() {
			t.Errorf("Take: %+v", e.Decision())
		}
	}
	if l.AllowN(time.Now(), 6) || l.ReserveN(time.Now(), 6).OK() {
		t.Error("more than the burst is allowed")
	}
}

// The limit of the *rate.Limiter is lowered between Take and Settle. Its Reservation goes by the earlier
// one, and gives nothing back any more. So Settle must not reserve anew what was used.
func TestSettleTakesNothingMoreFromASlowerRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 10)
		e := limiter.FromRate(l).Take(t.Context(), 2, 0)
		l.SetLimit(0.5)
		time.Sleep(time.Second)
		before := l.Tokens()
		if e.Settle(1); l.Tokens() < before || l.Tokens() > before+1 {
			t.Errorf("%v tokens, and %v once 1 of 2 is given back", before, l.Tokens())
		}
	})
}
