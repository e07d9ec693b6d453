// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs f on virtual time. Its clock begins in the year 2000, and f when
// Instants are no longer negative, as in a real process.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(Now().Sub(0).Abs())
		f(t)
	})
}

// updater is an Updater that is one function.
type updater func(ctx context.Context, u *rpc.Usage, done func(rpc.Part, *rpc.Grants, error))

func (f updater) Update(ctx context.Context, u *rpc.Usage, _ time.Duration, done func(rpc.Part, *rpc.Grants, error)) {
	f(ctx, u, done)
}

// half grants every key of u half of its limit.
func half(u *rpc.Usage) *rpc.Grants {
	g := new(rpc.Grants)
	for range u.Keys {
		g.Weight = append(g.Weight, 0.5)
		g.Burst = append(g.Burst, 50)
		g.Used = append(g.Used, 10)
		g.Lease = append(g.Lease, 5*time.Second)
	}
	return g
}

// owner is a Decider that grants half of everything.
type owner struct{}

func (owner) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	var u rpc.Usage
	if err := (rpc.Columnar{}).DecodeUsage(payload, &u); err != nil {
		return nil, err
	}
	return rpc.Columnar{}.EncodeGrants(half(&u), u.Len())
}

// kept has one rule, for every key, which stay for an hour. A call is given up
// before the next round begins.
func kept(t testing.TB, interval time.Duration) *dynamicconfig.Snapshot {
	t.Helper()
	rule := weighted(100)
	rule.Key, rule.IdleAfter = "*", time.Hour
	s, err := dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: interval, UpdateTimeout: interval / 2},
		Rules:      []dynamicconfig.Rule{rule},
	}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// background runs g until the returned function is called, which waits for it
// and returns how long it took to end.
func background(t *testing.T, g *Group, u Updater) (stop func() time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { g.Run(ctx, u); close(ended) }()
	return func() time.Duration {
		at := time.Now()
		cancel()
		<-ended
		return time.Since(at)
	}
}

func TestRunReportsOnceAnIntervalFromARandomPoint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const groups = 50
		start := time.Now()
		var rounds [groups][]time.Duration
		var stops []func() time.Duration
		for i := range groups {
			g := NewGroup(kept(t, time.Second), 1)
			g.For("k").Allow()
			stops = append(stops, background(t, g, updater(func(_ context.Context, u *rpc.Usage, done func(rpc.Part, *rpc.Grants, error)) {
				rounds[i] = append(rounds[i], time.Since(start))
				g.For("k").Allow() // so that it does not sleep
				done(rpc.Part{Rows: []int{0}}, half(u), nil)
			})))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, stop := range stops {
			stop()
		}
		quarters := make(map[time.Duration]int)
		for i, at := range rounds {
			if len(at) != 10 {
				t.Fatalf("group %d: %d rounds in 10 intervals: %v", i, len(at), at)
			}
			for n := range at {
				if want := at[0] + time.Duration(n)*time.Second; at[n] != want {
					t.Errorf("group %d: round %d at %v, want %v", i, n, at[n], want)
				}
			}
			quarters[at[0]/(time.Second/4)]++
		}
		if len(quarters) != 4 || at100ms(quarters) {
			t.Errorf("%d groups began in these quarters of the interval: %v", groups, quarters)
		}
	})
}

// at100ms tells whether most begin in the same quarter.
func at100ms(quarters map[time.Duration]int) bool {
	for _, n := range quarters {
		if n > 30 {
			return true
		}
	}
	return false
}

func TestRunFollowsTheIntervalOfTheConfig(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := NewGroup(kept(t, time.Second), 1)
		defer used(g, time.Second/2, "k")()
		var rounds atomic.Int64
		stop := background(t, g, updater(func(_ context.Context, u *rpc.Usage, done func(rpc.Part, *rpc.Grants, error)) {
			rounds.Add(1)
			done(rpc.Part{Rows: []int{0}}, half(u), nil)
		}))
		defer stop()
		time.Sleep(2 * time.Second)
		g.Configure(Now(), kept(t, 10*time.Second))
		time.Sleep(time.Second)
		rounds.Store(0)
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if n := rounds.Load(); n != 10 {
			t.Errorf("%d rounds in 100 s of intervals of 10 s", n)
		}
	})
}

func TestRunAppliesAnswersAsTheyArrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := NewGroup(kept(t, time.Second), 4)
		g.For("fast").Allow()
		g.For("slow").Allow()
		began := make(chan time.Time, 10)
		stop := background(t, g, updater(func(ctx context.Context, u *rpc.Usage, done func(rpc.Part, *rpc.Grants, error)) {
			began <- time.Now()
			fast, slow := 0, 1
			if u.Keys[0] == "slow" {
				fast, slow = 1, 0
			}
			one := &rpc.Usage{Keys: []string{""}}
			done(rpc.Part{Owner: "a", Rows: []int{fast}}, half(one), nil)
			if sleep(ctx, 300*time.Millisecond) == nil {
				done(rpc.Part{Owner: "b", Rows: []int{slow}}, half(one), nil)
			}
		}))
		defer stop()
		at := <-began
		synctest.Wait()
		limits := func() [2]rate.Limit { return [2]rate.Limit{g.For("fast").Limit(), g.For("slow").Limit()} }
		if got := limits(); got != [2]rate.Limit{50, 25} {
			t.Errorf("at once: %v", got)
		}
		time.Sleep(time.Until(at.Add(300 * time.Millisecond)))
		synctest.Wait()
		if got := limits(); got != [2]rate.Limit{50, 50} {
			t.Errorf("when both have answered: %v", got)
		}
	})
}

// used asks for an event of each key now and every so often, so that none of
// them sleeps, until stop is called.
func used(g *Group, every time.Duration, keys ...string) (stop func()) {
	allow := func() {
		for _, key := range keys {
			g.For(key).Allow()
		}
	}
	allow()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				allow()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

func TestAnOwnerFailsAndIsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		network := rpctest.New(1)
		network.Host("owner").Serve(owner{})
		network.Host("other").Serve(owner{})
		fanout := &rpc.Fanout{Host: "host", Peers: network.Host("host").Peers(), Placement: placement{}}
		var log bytes.Buffer
		g := NewGroup(kept(t, time.Second), 4, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		defer used(g, time.Second/2, "owner:1", "owner:2", "other:1")()
		stop := background(t, g, fanout)
		defer stop()
		limits := func() [3]rate.Limit {
			return [3]rate.Limit{g.For("owner:1").Limit(), g.For("owner:2").Limit(), g.For("other:1").Limit()}
		}
		granted, fallen := [3]rate.Limit{50, 50, 50}, [3]rate.Limit{25, 25, 50}
		for _, tt := range []struct {
			what string
			do   func()
			wait time.Duration
			want [3]rate.Limit
			logs string
		}{
			{"after the first round", func() {}, 1100 * time.Millisecond, granted, ""},
			{"within the lease", func() { network.Cut("host", "owner") }, 3 * time.Second, granted, "WARN"},
			{"after the lease", func() {}, 20 * time.Second, fallen, "WARN"},
			{"when it is back", func() { network.HealAll() }, 2100 * time.Millisecond, granted, "WARN INFO"},
			{"when it does not serve", func() { network.Host("owner").Serve(nil) }, 10 * time.Second, fallen, "WARN INFO WARN"},
			{"when it does again", func() { network.Host("owner").Serve(owner{}) }, 2100 * time.Millisecond, granted, "WARN INFO WARN INFO"},
		} {
			tt.do()
			time.Sleep(tt.wait)
			synctest.Wait()
			if got := limits(); got != tt.want {
				t.Errorf("%s: limits %v, want %v", tt.what, got, tt.want)
			}
			var levels []string
			for line := range strings.Lines(log.String()) {
				level, _, _ := strings.Cut(line[strings.Index(line, "level=")+len("level="):], " ")
				levels = append(levels, level)
				if !strings.Contains(line, "owner=owner") {
					t.Errorf("%s: the log does not name the owner: %s", tt.what, line)
				}
			}
			if got := strings.Join(levels, " "); got != tt.logs {
				t.Errorf("%s: logged %q, want %q\n%s", tt.what, got, tt.logs, log.String())
			}
		}
	})
}

// placement gives a key to the owner that it begins with.
type placement struct{}

func (placement) Owner(key string) string {
	owner, _, _ := strings.Cut(key, ":")
	return owner
}

func TestRunEndsAtOnce(t *testing.T) {
	for name, u := range map[string]Updater{
		"between rounds": updater(func(_ context.Context, u *rpc.Usage, done func(rpc.Part, *rpc.Grants, error)) {
			done(rpc.Part{Rows: []int{0}}, half(u), nil)
		}),
		"during a call": updater(func(ctx context.Context, _ *rpc.Usage, done func(rpc.Part, *rpc.Grants, error)) {
			<-ctx.Done()
			done(rpc.Part{Rows: []int{0}}, nil, ctx.Err())
		}),
	} {
		bubble(t, func(t *testing.T) {
			g := NewGroup(kept(t, time.Second), 1)
			g.For("k").Allow()
			stop := background(t, g, u)
			time.Sleep(5*time.Second + 123*time.Millisecond)
			synctest.Wait()
			if took := stop(); took != 0 {
				t.Errorf("%s: took %v", name, took)
			}
		})
	}
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		NewGroup(kept(t, time.Second), 1).Run(ctx, updater(func(context.Context, *rpc.Usage, func(rpc.Part, *rpc.Grants, error)) {
			t.Error("reports after its end")
		}))
	})
}

// stall is a gauge that stops the loop for a while, as if the host had been
// suspended.
type stall struct {
	calls int
	pause time.Duration
}

func (s *stall) Update(float64) {
	if s.calls++; s.calls == 3 {
		time.Sleep(s.pause)
	}
}

func TestASuspendedHostDoesNotCatchUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := NewGroup(kept(t, time.Second), 1)
		g.metrics.keys = &stall{pause: time.Minute}
		g.For("k").Allow()
		start := time.Now()
		var woke atomic.Int64
		stop := background(t, g, updater(func(_ context.Context, u *rpc.Usage, done func(rpc.Part, *rpc.Grants, error)) {
			if time.Since(start) > time.Minute {
				woke.Add(1)
			}
			g.For("k").Allow() // so that it does not sleep
			done(rpc.Part{Rows: []int{0}}, half(u), nil)
		}))
		defer stop()
		time.Sleep(63*time.Second + time.Second/2)
		synctest.Wait()
		// What was under way when the host stopped, and one for now.
		if n := woke.Load(); n == 0 || n > 5 {
			t.Errorf("%d rounds within three seconds after a minute's sleep", n)
		}
		if tokens := g.For("k").Tokens(); tokens > 100 {
			t.Errorf("%v tokens, more than one burst", tokens)
		}
	})
}

// waiting is what Bucket, Keyed and *rate.Limiter have in common.
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
func TestWaitsAreThoseOfXTimeRate(t *testing.T) {
	const limit, burst = 8, 5 // 125 ms per token
	kinds := map[string]func() waiting{
		"Bucket": func() waiting { return NewBucket(limit, burst) },
		"Keyed": func() waiting {
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
							deadline = ms(100)
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

// Waiters get their turns in order, and who gives up frees their tokens for
// those who come later, as with x/time/rate.
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
		gone, leave := context.WithCancel(t.Context())
		leave()
		for _, tt := range []struct {
			name string
			l    Limiter
			ctx  context.Context
			n    int
			want error
		}{
			{"more than the burst", slow, t.Context(), 6, ErrNever},
			{"a limit of zero", NewBucket(0, 1), t.Context(), 2, ErrNever},
			{"past the deadline", slow, soon, 1, context.DeadlineExceeded},
			{"nobody is there", slow, gone, 1, context.Canceled},
			{"nobody is there to take what there is", full, gone, 1, context.Canceled},
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
