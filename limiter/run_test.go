// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc/usage"
)

// half grants every key of u half of its limit.
func half(u *usage.Report) *usage.Grants {
	g := new(usage.Grants)
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
	var u usage.Report
	if err := (usage.Columnar{}).DecodeReport(payload, &u); err != nil {
		return nil, err
	}
	return usage.Columnar{}.EncodeGrants(half(&u), u.Len())
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

// running runs g until the returned function is called, which waits for it
// and returns how long it took to end.
func running(t *testing.T, g *Group, u usage.Updater) (stop func() time.Duration) {
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
			stops = append(stops, running(t, g, updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
				rounds[i] = append(rounds[i], time.Since(start))
				g.For("k").Allow() // so that it does not sleep
				done(usage.Part{Rows: []int{0}}, half(u), nil)
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
		if len(quarters) != 4 || skewed(quarters) {
			t.Errorf("%d groups began in these quarters of the interval: %v", groups, quarters)
		}
	})
}

// skewed reports whether most begin in the same quarter.
func skewed(quarters map[time.Duration]int) bool {
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
		stop := running(t, g, updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
			rounds.Add(1)
			done(usage.Part{Rows: []int{0}}, half(u), nil)
		}))
		defer stop()
		time.Sleep(2 * time.Second)
		g.Configure(kept(t, 10*time.Second))
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
		stop := running(t, g, updater(func(ctx context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
			began <- time.Now()
			fast, slow := 0, 1
			if u.Keys[0] == "slow" {
				fast, slow = 1, 0
			}
			one := &usage.Report{Keys: []string{""}}
			done(usage.Part{Owner: "a", Rows: []int{fast}}, half(one), nil)
			if sleep(ctx, 300*time.Millisecond) == nil {
				done(usage.Part{Owner: "b", Rows: []int{slow}}, half(one), nil)
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

// used uses each key now and every so often, so that none is deactivated, until
// stop is called.
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
		fanout := &usage.Fanout{Host: "host", Peers: network.Host("host").Peers(), Placement: placement{}}
		var log bytes.Buffer
		g := NewGroup(kept(t, time.Second), 4, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		defer used(g, time.Second/2, "owner:1", "owner:2", "other:1")()
		stop := running(t, g, fanout)
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

// Operators compare how many keys were answered, and how many were not.
func TestAnswersAreCountedByKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		scope := tally.NewTestScope("", nil)
		g := NewGroup(kept(t, time.Second), 1, WithScope(scope))
		for i := range 10 {
			g.For(fmt.Sprint("k", i)).Allow()
		}
		stop := running(t, g, updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
			rows := make([]int, u.Len())
			for i := range rows {
				rows[i] = i
			}
			for part, rows := range map[string][]int{"gone": rows[:3], "there": rows[3:]} {
				var grants *usage.Grants
				err := errors.New("gone")
				if part == "there" {
					grants, err = half(&usage.Report{Keys: u.Keys[3:]}), nil
				}
				done(usage.Part{Owner: part, Rows: rows}, grants, err)
			}
		}))
		time.Sleep(1500 * time.Millisecond)
		stop()
		counters := scope.Snapshot().Counters()
		answered, unanswered := counters["limiter.updates_answered+"].Value(), counters["limiter.updates_unanswered+"].Value()
		if rounds := answered / 7; rounds == 0 || answered != 7*rounds || unanswered != 3*rounds {
			t.Errorf("%d keys are answered and %d are not, want 7 and 3 of each 10", answered, unanswered)
		}
	})
}

func TestRunEndsAtOnce(t *testing.T) {
	for name, u := range map[string]usage.Updater{
		"between rounds": updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
			done(usage.Part{Rows: []int{0}}, half(u), nil)
		}),
		"during a call": updater(func(ctx context.Context, _ *usage.Report, done func(usage.Part, *usage.Grants, error)) {
			<-ctx.Done()
			done(usage.Part{Rows: []int{0}}, nil, ctx.Err())
		}),
	} {
		bubble(t, func(t *testing.T) {
			g := NewGroup(kept(t, time.Second), 1)
			g.For("k").Allow()
			stop := running(t, g, u)
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
		NewGroup(kept(t, time.Second), 1).Run(ctx, updater(func(context.Context, *usage.Report, func(usage.Part, *usage.Grants, error)) {
			t.Error("reports after its end")
		}))
	})
}

// A host that stops while an owner is asked says nothing about the owner.
func TestAHostThatStopsDoesNotLogItsOwners(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		g := NewGroup(kept(t, time.Second), 1, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		g.For("k").Allow()
		asked := make(chan struct{})
		stop := running(t, g, updater(func(ctx context.Context, r *usage.Report, done func(usage.Part, *usage.Grants, error)) {
			close(asked)
			<-ctx.Done()
			done(usage.Part{Owner: "owner", Usage: r}, nil, ctx.Err())
		}))
		<-asked
		stop()
		if log.Len() > 0 {
			t.Error(log.String())
		}
	})
}

// stall is a gauge that stops the loop for a while, as if the host had been
// suspended.
type stall struct {
	calls, at int
	pause     time.Duration
}

func (s *stall) Update(float64) {
	if s.calls++; s.calls == s.at {
		time.Sleep(s.pause)
	}
}

// stalling is a scope whose gauge of keys stalls.
type stalling struct {
	tally.Scope
	gauge tally.Gauge
}

func (s stalling) SubScope(string) tally.Scope { return s }

func (s stalling) Gauge(name string) tally.Gauge {
	if name == "keys" {
		return s.gauge
	}
	return s.Scope.Gauge(name)
}

func TestASuspendedHostDoesNotCatchUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := NewGroup(kept(t, time.Second), 1, WithScope(stalling{tally.NoopScope, &stall{at: 3, pause: time.Minute}}))
		g.For("k").Allow()
		start := time.Now()
		var woke atomic.Int64
		stop := running(t, g, updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
			if time.Since(start) > time.Minute {
				woke.Add(1)
			}
			g.For("k").Allow() // so that it does not sleep
			done(usage.Part{Rows: []int{0}}, half(u), nil)
		}))
		defer stop()
		time.Sleep(63*time.Second + time.Second/2)
		synctest.Wait()
		// The rounds that were under way when the host went to sleep, and one for now.
		if n := woke.Load(); n == 0 || n > 5 {
			t.Errorf("%d rounds within three seconds after a minute's sleep", n)
		}
		if tokens := g.For("k").Tokens(); tokens > 100 {
			t.Errorf("%v tokens, more than one burst", tokens)
		}
	})
}

// letters places keys by their last letter.
type letters struct{}

func (letters) Owner(key string) string { return key[len(key)-1:] }

// A host with many keys that run dry sends each owner few messages, and the keys of
// one owner share them.
func TestEarlyReportsToOneOwnerShareMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const keys, owners, seconds, most = 400, 4, 10, (15+1)*10 + 20 + 1
		g := NewGroup(kept(t, time.Second), 10, reportsEarly, WithPlacement(letters{}))
		var mu sync.Mutex // protects calls and rows
		calls, rows := make(map[string]int), 0
		stop := running(t, g, updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
			for _, part := range usage.Split(u, letters{}) {
				mu.Lock()
				calls[part.Owner]++
				rows += part.Usage.Len()
				mu.Unlock()
				answer := half(part.Usage)
				answer.Tokens = make([]float64, part.Usage.Len())
				for i := range answer.Tokens {
					answer.Tokens[i] = 20
				}
				done(part, answer, nil)
			}
		}))
		for i := range 100 * seconds {
			for k := range keys / 20 {
				key := g.For(fmt.Sprintf("%d-%c", i%20*keys/20+k, 'a'+k%owners))
				for key.Allow() {
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		total := 0
		for owner, n := range calls {
			if n > most {
				t.Errorf("%d calls to %s in %d intervals", n, owner, seconds)
			}
			total += n
		}
		if len(calls) != owners || rows < 5*total {
			t.Errorf("%d rows in %d calls to %d owners", rows, total, len(calls))
		}
	})
}

// An owner of another release may answer reports of one algorithm and refuse those of another. The log says once what
// it does not answer, and once that it does.
func TestAnOwnerThatRefusesOneAlgorithmIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, err := dynamicconfig.Config{
			Properties: dynamicconfig.Properties{UpdateInterval: time.Second, UpdateTimeout: time.Second / 2},
			Rules: []dynamicconfig.Rule{
				{Key: "a", Limit: 100, Algorithm: "request-weighted"},
				{Key: "b", Limit: 100, Algorithm: "drop-ratio"},
			},
		}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		var refuses atomic.Bool
		refuses.Store(true)
		log := new(bytes.Buffer)
		g := NewGroup(s, 1, WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		stop := running(t, g, updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
			part := usage.Part{Owner: "owner", Usage: u}
			if u.Algorithm == "drop-ratio" && refuses.Load() {
				done(part, nil, errors.New("another release"))
				return
			}
			done(part, half(u), nil)
		}))
		use := func() {
			for range 60 {
				g.For("a").Allow()
				g.For("b").Allow()
				time.Sleep(time.Second)
			}
		}
		use()
		refuses.Store(false)
		use()
		stop()
		for want, n := range map[string]int{"does not answer": 1, "answers again": 1, "drop-ratio": 2} {
			if got := strings.Count(log.String(), want); got != n {
				t.Errorf("%d lines with %q, want %d:\n%.2000s", got, want, n, log)
			}
		}
	})
}
