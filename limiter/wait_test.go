// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// waiting is what Bucket, Limiter and *rate.Limiter have in common.
type waiting interface {
	AllowN(t time.Time, n int) bool
	WaitN(ctx context.Context, n int) error
	TokensAt(t time.Time) float64
}

// outcome is what came of a wait.
type outcome struct {
	took time.Duration
	ok   bool
}

// same allows for how floats round.
func same(a, b outcome) bool { return a.ok == b.ok && (a.took-b.took).Abs() <= 10*time.Nanosecond }

func wait(l waiting, n int, deadline, cancelled time.Duration) outcome {
	ctx := context.Background()
	if deadline > 0 {
		c, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		ctx = c
	}
	if cancelled > 0 {
		c, cancel := context.WithCancel(ctx)
		defer time.AfterFunc(cancelled, cancel).Stop()
		ctx = c
	}
	start := time.Now()
	err := l.WaitN(ctx, n)
	return outcome{time.Since(start), err == nil}
}

// A wait takes as long, ends as well and leaves as many tokens as with
// x/time/rate, whatever came before.
func TestWaitsAreThoseOfARateLimiter(t *testing.T) {
	const limit, burst = 8, 5 // 125 ms per token
	kinds := map[string]func() waiting{
		"Bucket": func() waiting { return NewBucket(limit, burst) },
		"Limiter": func() waiting {
			rule := dynamicconfig.Rule{Key: "k", Limit: limit, Burst: burst, Algorithm: Even}
			return NewGroup(snapshot(t, rule), 1).For("k")
		},
	}
	for name, make := range kinds {
		for seed := range uint64(50) {
			bubble(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				ours, theirs := make(), rate.NewLimiter(limit, burst)
				for step := range 60 {
					n := random.IntN(burst + 2) // sometimes more than the burst
					ms := func(most int) time.Duration { return time.Duration(random.IntN(most)) * 10 * time.Millisecond }
					var got, want outcome
					what := ""
					switch random.IntN(4) {
					case 0:
						time.Sleep(ms(100))
						continue
					case 1:
						what = fmt.Sprintf("AllowN(%d)", n)
						got.ok, want.ok = ours.AllowN(time.Now(), n), theirs.AllowN(time.Now(), n)
					default:
						var deadline, cancelled time.Duration
						if random.IntN(2) == 0 {
							deadline = ms(100) + time.Millisecond/4 // never at the instant of a turn: either may be first then
						}
						if random.IntN(3) == 0 {
							cancelled = ms(100) + time.Millisecond/2
						}
						what = fmt.Sprintf("WaitN(%d), deadline %v, cancelled after %v", n, deadline, cancelled)
						var both sync.WaitGroup
						both.Go(func() { got = wait(ours, n, deadline, cancelled) })
						both.Go(func() { want = wait(theirs, n, deadline, cancelled) })
						both.Wait()
					}
					if !same(got, want) {
						t.Fatalf("%s, seed %d, step %d, %s: %v, want %v", name, seed, step, what, got, want)
					}
					if got, want := ours.TokensAt(time.Now()), theirs.TokensAt(time.Now()); !near(got, want) {
						t.Fatalf("%s, seed %d, step %d, %s: %v tokens, want %v", name, seed, step, what, got, want)
					}
				}
			})
		}
	}
}

// Waiters get their turns in order, and a waiter that gives up frees its tokens
// for those that come later, as with x/time/rate.
func TestWaitersQueue(t *testing.T) {
	queue := func(l waiting) (turns []time.Duration) {
		start := time.Now()
		turns = make([]time.Duration, 15)
		var all sync.WaitGroup
		for i := range turns {
			time.Sleep(time.Millisecond)
			if i == 10 { // some have given up, with others behind them
				time.Sleep(150 * time.Millisecond)
			}
			all.Go(func() {
				var cancelled time.Duration
				if i%3 == 2 {
					cancelled = 100 * time.Millisecond
				}
				if wait(l, 1+i%2, 0, cancelled).ok {
					turns[i] = time.Since(start)
				}
			})
		}
		all.Wait()
		return turns
	}
	bubble(t, func(t *testing.T) {
		theirs := queue(rate.NewLimiter(8, 2))
		ours := queue(NewBucket(8, 2))
		for i := range ours {
			if (ours[i] - theirs[i]).Abs() > 10*time.Nanosecond {
				t.Errorf("waiter %d had its turn at %v, with x/time/rate at %v", i, ours[i], theirs[i])
			}
		}
	})
}

func TestWaitsThatCannotSucceed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow, full := NewBucket(1, 5), NewBucket(1, 5)
		slow.AllowN(time.Now(), 5)
		soon, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		ended, end := context.WithCancel(t.Context())
		end()
		for _, tt := range []struct {
			name string
			l    waiting
			ctx  context.Context
			n    int
			want error
		}{
			{"more than the burst", slow, t.Context(), 6, ErrNever},
			{"a limit of zero", NewBucket(0, 1), t.Context(), 2, ErrNever},
			{"past the deadline", slow, soon, 1, context.DeadlineExceeded},
			{"ended", slow, ended, 1, context.Canceled},
			{"ended, though there are tokens", full, ended, 1, context.Canceled},
		} {
			start := time.Now()
			if err := tt.l.WaitN(tt.ctx, tt.n); !errors.Is(err, tt.want) || time.Since(start) != 0 {
				t.Errorf("%s: %v after %v, want %v at once", tt.name, err, time.Since(start), tt.want)
			}
		}
		if slow.Tokens() != 0 || full.Tokens() != 5 {
			t.Errorf("waits that failed took tokens: %v and %v are left", slow.Tokens(), full.Tokens())
		}
		if err := slow.WaitN(t.Context(), -1); err == nil {
			t.Error("a negative cost waits")
		}
	})
}

// Under a limit of zero no wait helps, whatever else would have refused it.
func TestAWaitUnderALimitOfZeroNeverHelps(t *testing.T) {
	bounded := alone(0, 0)
	bounded.MaxWait = time.Second
	within, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, l := range map[string]*Limiter{
		"a bucket": NewBucket(0, 0).Limiter(), "a rule": NewGroup(snapshot(t, alone(0, 0)), 1).For("k"),
		"a rule with max_wait": NewGroup(snapshot(t, bounded), 1).For("k"),
	} {
		for _, ctx := range []context.Context{t.Context(), within} {
			if err := l.Wait(ctx); !errors.Is(err, ErrNever) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A soft limit delays those who wait, and lets the rest of the events pass; nobody waits under
// max_wait: 0s.
func TestWaitsUnderASoftLimit(t *testing.T) {
	for most, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 2 * time.Second: 2 * time.Second, -1: 0} {
		bubble(t, func(t *testing.T) {
			rule := alone(1, 1)
			rule.Enforce, rule.MaxWait = dynamicconfig.Soft, most
			k := NewGroup(snapshot(t, rule), 1).For("k")
			var all sync.WaitGroup
			began := time.Now()
			for range 6 {
				all.Go(func() {
					if err := k.Wait(t.Context()); err != nil {
						t.Errorf("max_wait %v: %v", most, err)
					}
				})
			}
			if all.Wait(); time.Since(began).Round(time.Millisecond) != want {
				t.Errorf("max_wait %v: it took %v, want %v", most, time.Since(began), want)
			}
		})
	}
}

// A wait that fails now, and may succeed later, does not return ErrNever.
func TestAWaitThatMayHelpLaterSaysSo(t *testing.T) {
	forever := context.Background()
	within, cancel := context.WithTimeout(forever, time.Hour)
	defer cancel()
	for name, tt := range map[string]struct {
		fallback dynamicconfig.Fallback
		answers  bool
		want     error
	}{
		"the fallback is closed": {dynamicconfig.FallbackClosed, false, ErrFailed},
		"chance":                 {dynamicconfig.FallbackEven, true, ErrDropped},
	} {
		rule := weighted(100)
		rule.Fallback = tt.fallback
		g, now := NewGroup(snapshot(t, rule), 1), stage.Now()
		k := g.For("k")
		if allowAt(k, now-second, 1); tt.answers {
			answer(t, g, now, 0, 0, usage.FloorDrop, time.Hour)
		}
		for _, ctx := range []context.Context{forever, within} {
			if err := k.Wait(ctx); !errors.Is(err, tt.want) || errors.Is(err, ErrNever) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A host that is granted nothing, as by the owner of a key that is leased out, may be granted a part later.
func TestAWaitWithoutAPartOfTheLimitMayHelpLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := weighted(100)
		rule.Fallback = dynamicconfig.FallbackClosed
		g := NewGroup(snapshot(t, rule), 1)
		k := g.For("k")
		k.Allow()
		time.Sleep(time.Second)
		answer(t, g, stage.Now(), 0, 0, usage.FloorNone, time.Hour)
		if err := k.Wait(t.Context()); !errors.Is(err, ErrTooLong) || errors.Is(err, ErrNever) || !strings.Contains(err.Error(), "no part of the limit now") {
			t.Errorf("a part of %v: %v", k.Limit(), err)
		}
		time.Sleep(time.Second)
		answer(t, g, stage.Now(), 0.5, 50, usage.FloorNone, time.Hour)
		if err := k.Wait(t.Context()); err != nil {
			t.Errorf("a part of %v: %v", k.Limit(), err)
		}
	})
}

// A remote bucket need not know after how long it would allow the event.
func TestARefusalElsewhereMayHelpLater(t *testing.T) {
	e := newElsewhere(stage.Now)
	e.answer = &stage.Outcome{}
	rule := alone(1, 5)
	rule.Algorithm = "exact"
	if err := NewGroup(snapshot(t, rule), 1, WithRemote("exact", e)).For("k").Wait(t.Context()); !errors.Is(err, ErrTooLong) || errors.Is(err, ErrNever) {
		t.Error(err)
	}
}

// However callers arrive, as many as there are tokens are released, one after
// the other. No arrival delays those that wait already.
func TestWaitReleasesEvenly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const gap = 100 * time.Millisecond
	for name, next := range map[string]func() (after time.Duration, n int){
		"one by one, faster than the limit": func() (time.Duration, int) { return 7 * time.Millisecond, 1 },
		"just faster than the limit":        func() (time.Duration, int) { return 99 * time.Millisecond, 1 },
		"at the limit":                      func() (time.Duration, int) { return gap, 1 },
		"all at once":                       func() (time.Duration, int) { return time.Hour, 60 },
		"in bursts":                         func() (time.Duration, int) { return time.Second, 17 },
		"by chance": func() (time.Duration, int) {
			return time.Duration(random.ExpFloat64() * float64(20*time.Millisecond)), 1 + random.IntN(3)
		},
	} {
		bubble(t, func(t *testing.T) {
			rule := weighted(10)
			rule.Burst = 1
			k := NewGroup(snapshot(t, rule), 1).For("k")
			var mu sync.Mutex
			var released []time.Duration
			var waiters sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			for time.Since(began) < 5*time.Second {
				after, n := next()
				for range n {
					waiters.Go(func() {
						if k.Wait(ctx) == nil {
							mu.Lock()
							released = append(released, time.Since(began))
							mu.Unlock()
						}
					})
				}
				time.Sleep(min(after, 5*time.Second-time.Since(began)))
			}
			cancel()
			waiters.Wait()
			if n := len(released); n < 49 || n > 51 {
				t.Errorf("%s: %d in 5 s of 10/s", name, n)
			}
			for i, at := range released {
				if i > 0 && (at-released[i-1]-gap).Abs() > time.Millisecond {
					t.Errorf("%s: release %d came %v after the one before", name, i, at-released[i-1])
				}
			}
		})
	}
}

// overdue is a context whose deadline has passed and that has not ended yet: the
// timer of a context is a little late.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestAWaitPastItsDeadlineReservesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := NewGroup(snapshot(t, alone(1, 1)), 1).For("k")
		k.Allow()
		begin := time.Now()
		err := k.Wait(overdue{t.Context()})
		if waited := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || waited > 0 {
			t.Errorf("%v after %v", err, waited)
		}
	})
}

// ending is a context that ends while a caller begins to wait for it.
type ending struct{ context.Context }

func (e ending) Done() <-chan struct{} {
	<-e.Context.Done()
	return e.Context.Done()
}

// A wait that is over takes its tokens, and one that fails takes none, though both end
// at a time.
func TestAWaitThatIsOverWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for range 20 {
			k := NewGroup(snapshot(t, alone(1, 5)), 1).For("k")
			k.AllowN(time.Now(), 5)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(2*time.Second, cancel)
			err := k.Wait(ending{ctx})
			want := 2.0
			if err == nil {
				want = 1
			}
			if got := k.Tokens(); !near(got, want) {
				t.Fatalf("%v tokens are left, want %v: %v", got, want, err)
			}
		}
	})
}

func TestTheZeroLimiterRefusesEverything(t *testing.T) {
	var l Limiter
	if l.Allow() || l.AllowN(time.Now(), 2) || l.Reserve().OK() || l.Wait(t.Context()) == nil || l.Take(t.Context(), 1, 0).OK() {
		t.Error("it allows something")
	}
	if release, ok := l.TryAcquire(1); ok {
		t.Error("it has slots")
	} else {
		release()
	}
	l.Charge(1)
	l.SetDemand(1)
	if l.Limit() != 0 || l.Burst() != 0 || l.Tokens() != 0 || l.Rule() != nil || l.Key() != "" {
		t.Errorf("%v, %v, %v", l.Limit(), l.Burst(), l.Tokens())
	}
	var b Bucket
	for name, set := range map[string]func(){
		"nothing": func() {}, "a burst": func() { b.SetBurst(5) }, "a limit": func() { b.SetLimit(5) }, "no limit": func() { b.SetLimit(rate.Inf) },
	} {
		if set(); b.Allow() || b.AllowN(time.Now(), 1) {
			t.Errorf("the zero Bucket allows something when %s is set", name)
		}
	}
}
