// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// counted are the counters of scope, by name and tags.
func counted(scope tally.TestScope) map[string]int64 {
	m := make(map[string]int64)
	for _, c := range scope.Snapshot().Counters() {
		if c.Value() != 0 {
			m[c.Name()+"/"+c.Tags()["rule"]+"/"+c.Tags()["reason"]] = c.Value()
		}
	}
	return m
}

// What is refused before any rule is looked at has a metric, too.
func TestMetricsCountWhatIsNotValid(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	all := alone(10, 10)
	all.Key = "*"
	g := NewGroup(snapshot(t, all), 1, WithScope(scope))
	g.For("").Allow()
	g.For("").AllowN(time.Now(), 5)
	g.For("k").AllowN(time.Now(), -7)
	g.For("k").ReserveN(time.Now(), -1)
	g.Manual().Report(stage.Now())
	if got := counted(scope); got["limiter.rejected/(none)/invalid-key"] != 6 || got["limiter.rejected/*/invalid-cost"] != 2 {
		t.Errorf("counted %v", got)
	}
}

func TestMetricsCountWhatAnOwnerAllowed(t *testing.T) {
	var now stage.Instant
	scope := tally.NewTestScope("", nil)
	e := newElsewhere(func() stage.Instant { return now })
	g := NewGroup(snapshot(t, autoRule(1)), 10, WithRemote(Auto, e), WithSeed(1), WithScope(scope), WithBackground(func(f func()) { f() }))
	take(g.For("k"), 0, 25)
	now = second
	granted(t, g, now, g.Manual().Report(now), sure, 0)
	got := counted(scope)
	if got["limiter.allowed/k/"] != 20 || got["limiter.rejected/k/limited"] != 5 {
		t.Errorf("counted %v", got)
	}
}

func TestMetricsCountEachRefusalOnce(t *testing.T) {
	var now stage.Instant
	scope := tally.NewTestScope("", nil)
	e := newElsewhere(func() stage.Instant { return now })
	g := NewGroup(snapshot(t, exactKey("k")), 1, WithRemote("exact", e), WithScope(scope), WithBackground(func(f func()) { f() }))
	k := g.For("k")
	n := k.Burst()
	take(k, 0, n+5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.err = context.Canceled
	for range 3 {
		decide(ctx, keyOf(k), now, 1, 0, stage.Final)
	}
	now = second
	g.Manual().Report(now)
	got := counted(scope)
	if got["limiter.allowed/k/"] != int64(n) || got["limiter.rejected/k/limited"] != 5 || got["limiter.rejected/k/canceled"] != 3 {
		t.Errorf("counted %v", got)
	}
}

// The cost may come from a stranger's request.
func TestAHugeCostHidesNoLaterRefusal(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	g := NewGroup(snapshot(t, alone(1, 1)), 1, WithScope(scope))
	k := g.For("k")
	for range 3 {
		decideAt(k, 0, math.MaxInt, 0)
	}
	take(k, 0, 11)
	g.Manual().Report(second)
	got := counted(scope)
	if got["limiter.allowed/k/"] != 1 || got["limiter.rejected/k/limited"] != 10 || got["limiter.rejected/k/too-costly"] != 3*min(math.MaxInt, bucket.MaxCost) {
		t.Errorf("counted %v", got)
	}
}

// Some systems of metrics, Prometheus for one, panic when a counter decreases. What is given back after it
// was counted makes the counter grow less later, also under later rules.
func TestACounterNeverDecreases(t *testing.T) {
	for reloads := range 4 {
		scope := tally.NewTestScope("", nil)
		g := NewGroup(snapshot(t, alone(100, 100)), 1, WithScope(scope))
		k := g.For("k")
		e := takeAt(k, 0, 50, 0)
		g.Manual().Report(second / 2)
		before := counted(scope)["limiter.allowed/k/"]
		e.settle(second/2, 20)
		for range reloads {
			g.Manual().Configure(second/2, snapshot(t, alone(100, 100)))
		}
		g.Manual().Report(second)
		after := counted(scope)["limiter.allowed/k/"]
		if before != 50 || after < before {
			t.Errorf("it went from %d to %d", before, after)
		}
		allowAt(k, second, 40)
		g.Manual().Report(2 * second)
		if got := counted(scope)["limiter.allowed/k/"]; got != 60 {
			t.Errorf("after %d reloads it is %d in the end", reloads, got)
		}
	}
}

// The rule is gone when a caller gives back what a counter has already.
func TestACounterHasNotWhatComesBackWithoutARule(t *testing.T) {
	for _, back := range []string{"before", "after"} { // a report
		for _, rule := range []dynamicconfig.Rule{alone(100, 100), weighted(100)} {
			scope := tally.NewTestScope("", nil)
			other := alone(1, 1)
			other.Key = "j"
			g := NewGroup(snapshot(t, rule), 1, WithScope(scope))
			k, m := g.For("k"), g.Manual()
			e := takeAt(k, 0, 50, 0)
			m.Report(second / 2)
			m.Configure(second, snapshot(t, other))
			if back == "after" {
				m.Report(second)
			}
			e.settle(second, 0)
			m.Report(2 * second)
			m.Configure(3*second, snapshot(t, rule))
			for now := 3 * second; now < 10*second; now += second {
				m.Report(now)
			}
			allowAt(k, 10*second, 60)
			m.Report(11 * second)
			if got := counted(scope)["limiter.allowed/k/"]; got != 60 {
				t.Errorf("%s %s: it is %d in the end", back, rule.Algorithm, got)
			}
		}
	}
}

func TestMetricsCountOnceWhatIsReportedTwice(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	rule := weighted(100)
	rule.Key, rule.IdleAfter = "*", time.Second
	g := NewGroup(snapshot(t, rule), 1, WithScope(scope))
	m := g.Manual()
	take(g.For("k"), 0, 10)
	for now := second; now < 6*second; now += second {
		for _, b := range m.Report(now) {
			m.Fail(now, b, nil)
		}
	}
	if g.keys().Live("k") != nil {
		t.Fatal("it is not forgotten")
	}
	take(g.For("k"), 6*second, 1)
	for now := 7 * second; now < 10*second; now += second {
		for _, b := range m.Report(now) {
			m.Fail(now, b, nil)
		}
	}
	if got := counted(scope)["limiter.allowed/*/"]; got != 11 {
		t.Errorf("counted %d", got)
	}
}

func TestMetricsCountWhatWasUsedBeforeAChangeOfRules(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	a, b := alone(100, 100), alone(100, 100)
	b.Key, b.Shared = "k*", true
	g := NewGroup(snapshot(t, a, b), 1, WithScope(scope))
	take(g.For("k"), 0, 10)
	g.Configure(snapshot(t, b)) // now it is one of a shared rule's
	g.Manual().Report(second)
	if got := counted(scope)["limiter.allowed/k/"] + counted(scope)["limiter.allowed/k*/"]; got != 10 {
		t.Errorf("counted %d", got)
	}
}

func TestACancelledReservationOfSomebodysLimiter(t *testing.T) {
	now := time.Now()
	plain, of := rate.NewLimiter(1, 10), rate.NewLimiter(1, 10)
	l := FromRate(of)
	plain.AllowN(now, 10)
	l.AllowN(now, 10)
	a, b := plain.ReserveN(now, 10), l.ReserveN(now, 10)
	plain.ReserveN(now, 4)
	l.ReserveN(now, 4)
	a.CancelAt(now)
	b.CancelAt(now)
	if got, want := l.TokensAt(now), plain.TokensAt(now); !near(got, want) {
		t.Errorf("%v tokens, want %v", got, want)
	}
}

// A debt becomes less when the limit is lowered, and those who made it give back no more
// than it is then: what is allowed and not given back stays within limit and burst.
func TestWhatALowerLimitForgaveDoesNotGoBack(t *testing.T) {
	for _, n := range []int64{1, 10} {
		for _, estimates := range []bool{false, true} {
			rule := alone(100, 10)
			g := NewGroup(snapshot(t, rule), 1)
			k := g.For("k")
			var all []taken
			for range 1000 {
				all = append(all, reserve(t.Context(), keyOf(k), 0, n, stage.Forever))
			}
			rule.Limit = 10
			g.Manual().Configure(0, snapshot(t, rule))
			got := 0
			for i := range all {
				if estimates {
					all[i].settle(0, 0)
				} else {
					all[i].cancel(0)
				}
				got += take(k, 0, 100)
			}
			if debt := float64(rule.MostDebt()); float64(got) > rule.Burst+debt {
				t.Errorf("%d tokens each, estimates %v: %d events at once under a burst of %v", n, estimates, got, rule.Burst)
			}
			if missing := keyOf(k).Level(0).Missing(); estimates && n == 10 && missing > 10 {
				t.Errorf("%d tokens are missing although all were given back", missing)
			}
		}
	}
}

// All goes back where this host's part of the limit became less, because no debt did.
func TestADebtThatNobodyForgaveGoesBack(t *testing.T) {
	g := NewGroup(snapshot(t, alone(100, 10)), 1)
	k := g.For("k")
	taken := reserveAt(k, 0, 10, stage.Forever)
	for range 100 {
		e := reserveAt(k, 0, 10, stage.Forever)
		defer e.settle(0, 0)
	}
	last := reserveAt(k, 0, 10, stage.Forever)
	before := keyOf(k).Level(0).Tokens
	g.Manual().SetHosts(0, 2)
	last.cancel(0)
	taken.settle(0, 0)
	if got := keyOf(k).Level(0).Tokens; !near(got-before, 20) {
		t.Errorf("%v of 20 tokens are back", got-before)
	}
}

// A debt becomes less where a fallback with a lower rate follows a grant. A caller that cancels
// gets none of that difference back.
func TestWhatALowerLevelForgaveDoesNotGoBack(t *testing.T) {
	for _, tt := range []struct {
		algorithm string
		estimates bool
	}{{"request-weighted", false}, {"request-weighted", true}, {Auto, false}, {Auto, true}} {
		rule := dynamicconfig.Rule{Key: "k", Limit: 100, Burst: 10, Algorithm: tt.algorithm}
		e := newElsewhere(func() stage.Instant { return 0 })
		e.err = errors.New("no answer")
		g := NewGroup(snapshot(t, rule), 10, WithRemote(Auto, e))
		k := g.For("k")
		allowAt(k, 0, 1)
		answer(t, g, second, 1, 0, usage.FloorNone, time.Second)
		var all []*taken
		for range 100 {
			all = append(all, reserveAt(k, second, 10, stage.Forever))
		}
		now := stage.Instant(2 * second)
		g.Manual().Report(now)
		allowAt(k, now, 1)
		if l := keyOf(k).Level(now); l.Limit != 10 || l.Tokens > -50 {
			t.Fatalf("the fallback has %+v", l)
		}
		got := 0
		for _, r := range all {
			if r.acts < now {
				continue
			}
			if tt.estimates {
				r.settle(now, 0)
			} else {
				r.cancel(now)
			}
			got += take(k, now, 100)
		}
		if got > int(rule.Burst) {
			t.Errorf("%+v: %d events at once under a burst of %v", tt, got, rule.Burst)
		}
	}
}

// A caller that cancels gets nothing back of a debt that a reset forgave. Tokens that were not a debt go
// back as always.
func TestWhatAResetForgaveDoesNotGoBack(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, estimates := range []bool{false, true} {
			rule := alone(10, 10)
			rule.Key, rule.Shared = "k*", shared
			g := NewGroup(snapshot(t, rule), 1)
			k := g.For("k1")
			undo := func(taken *taken) {
				if estimates {
					taken.settle(0, 0)
				} else {
					taken.cancel(0)
				}
			}
			var before []*taken
			for range 100 {
				before = append(before, reserveAt(k, 0, 1, stage.Forever))
			}
			if err := g.Reset(t.Context(), "k1"); err != nil {
				t.Fatal(err)
			}
			got := take(k, 0, 100)
			for _, taken := range before {
				undo(taken)
				got += take(k, 0, 100)
			}
			if got > 20 { // the first ten had tokens
				t.Errorf("shared %v, estimates %v: %d events after a reset, cancelled those before", shared, estimates, got)
			}
			after := reserveAt(k, 0, 10, stage.Forever)
			undo(after)
			if got := keyOf(k).Level(0).Tokens; got < -0.01 {
				t.Errorf("shared %v, estimates %v: %v tokens after one that was taken after the reset is cancelled", shared, estimates, got)
			}
		}
	}
}

func TestACancelOfAnOlderTimeGivesAllBack(t *testing.T) {
	now := time.Now()
	for _, ago := range []time.Duration{0, 100 * time.Microsecond, time.Hour} {
		k := NewGroup(snapshot(t, alone(1e6, 1000)), 1).For("k")
		k.AllowN(now, 1000)
		r := k.ReserveN(now, 1000)
		r.CancelAt(now.Add(-ago))
		if got := k.TokensAt(now); math.Abs(got) > 0.01 {
			t.Errorf("cancelled as of %v ago: %v tokens are left, want 0", ago, got)
		}
	}
}

func TestACancelAfterTheLimitWasRaised(t *testing.T) {
	start := time.Now()
	plain, l := rate.NewLimiter(1, 10), NewBucket(1, 10)
	plain.AllowN(start, 10)
	l.AllowN(start, 10)
	a, b := plain.ReserveN(start, 10), l.ReserveN(start, 10)
	now := start.Add(time.Second)
	plain.SetLimitAt(now, 100)
	l.SetLimitAt(now, 100)
	a.CancelAt(now)
	b.CancelAt(now)
	if got, want := l.TokensAt(now), plain.TokensAt(now); !near(got, want) {
		t.Errorf("%v tokens, want %v", got, want)
	}
}

// A process that ends soon tells its remote buckets what they are owed, too.
func TestTheLastFlushKnowsNewKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newElsewhere(stage.Now)
		var mu sync.Mutex
		var charged float64
		e.err = errors.New("down")
		g := NewGroup(snapshot(t, exactKey("k")), 1, WithRemote("exact", remoteFunc(func(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
			o, err := e.Do(ctx, op)
			if err == nil && op.Kind == stage.ChargeTokens {
				mu.Lock()
				charged += op.N
				mu.Unlock()
			}
			return o, err
		})))
		take(g.For("k"), stage.Now(), 3)
		g.keys().Join()
		e.mu.Lock()
		e.err = nil
		e.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g.Run(ctx, idle{})
		mu.Lock()
		defer mu.Unlock()
		if charged != 3 {
			t.Errorf("charged for %v", charged)
		}
	})
}

type remoteFunc func(context.Context, stage.Operation) (stage.Outcome, error)

func (f remoteFunc) Do(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
	return f(ctx, op)
}

func TestAnAlgorithmChangesWhileKeysRunLow(t *testing.T) {
	e := newElsewhere(stage.Now)
	rule := func(algorithm string) *dynamicconfig.Snapshot {
		return snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 1e6, Burst: 10, Algorithm: algorithm})
	}
	elastic, auto := rule("elastic"), rule(Auto)
	g := NewGroup(elastic, 1, WithRemote(Auto, e))
	k := g.For("k")
	var users sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		users.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					k.Allow()
				}
			}
		})
	}
	for range 200 {
		g.Configure(auto)
		g.Manual().Early(stage.Now())
		g.Configure(elastic)
		g.Manual().Early(stage.Now())
	}
	close(stop)
	users.Wait()
}

func TestTwoHandlesOfAKeyWithoutARule(t *testing.T) {
	r := &ear{}
	g := NewGroup(snapshot(t, weighted(10)), 1, WithListener(r.hear))
	a, b := g.For("x"), g.For("x")
	allowAt(a, 0, 1)
	for now := second; now < 20*second; now += second {
		allowAt(b, now, 1)
		g.Manual().Report(now)
		if g.keys().Live("x") != keyOf(a) {
			t.Fatalf("it is forgotten at %v, although it is used", time.Duration(now))
		}
	}
}

// A handle follows another one of its key, which was refused in the meantime.
func TestAHandleIsNotRefusedForEver(t *testing.T) {
	rule := weighted(100)
	rule.Key, rule.MaxKeys, rule.IdleAfter = "*", 1, time.Second
	g := NewGroup(snapshot(t, rule), 1)
	a, b := g.For("x"), g.For("x")
	allowAt(a, 0, 1)
	allowAt(b, 0, 1)
	leave := func(from stage.Instant) stage.Instant {
		for now := from; now < from+10*second; now += second {
			answer(t, g, now, 1, 0, usage.FloorNone, time.Minute)
		}
		return from + 10*second
	}
	now := leave(second)
	if !allowAt(g.For("y"), now, 1) || allowAt(a, now, 1) {
		t.Fatal("there is room for two")
	}
	now = leave(now)
	if n := g.keys().Counted("x"); n != 0 {
		t.Fatalf("%d keys", n)
	}
	if !allowAt(b, now, 1) {
		t.Error("refused, though there is room")
	}
}
