// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// wanted is what g reports that it wants of its only key; -1 for nothing.
func wanted(t testing.TB, g *Group, now Instant) float64 {
	t.Helper()
	_, u := one(t, g, now)
	if u.Wants == nil {
		return -1
	}
	return u.Wants[0]
}

func TestStatedDemandIsReported(t *testing.T) {
	for name, tt := range map[string]struct {
		rule     dynamicconfig.Rule
		options  []Option
		measured float64 // after the statement
	}{
		"rate":      {weighted(10), nil, -1},
		"wants":     {weighted(10), []Option{WithWants("request-weighted")}, 0},
		"eager":     {weighted(10), []Option{WithEager("request-weighted"), WithSeed(1)}, 0},
		"in flight": {inFlightRule(10), nil, 0},
	} {
		rule := tt.rule
		rule.IdleAfter = 5 * time.Second
		g := NewGroup(snapshot(t, rule), 1, tt.options...)
		k := g.For("k")
		now := Now()
		for _, step := range []struct{ state, want float64 }{
			{7.5, 7.5},
			{0, 0},
			{inf, maxDemand},
			{3, 3},
		} {
			k.SetDemand(step.state)
			// It is not used and does not sleep, nor is it forgotten.
			for range 10 {
				now += 2 * second
				if g.Early(now); name == "eager" {
					now += second
				}
				if got := wanted(t, g, now); got != step.want {
					t.Errorf("%s: stated %v, wants %v", name, step.state, got)
				}
			}
		}
		for _, measured := range []float64{Measured, math.NaN(), math.Inf(-1)} {
			k.SetDemand(1)
			k.SetDemand(measured)
			for _, b := range g.Report(now + second) {
				if u := b.Usage; u.Wants != nil && u.Wants[0] != tt.measured || u.Wants == nil && tt.measured >= 0 {
					t.Errorf("%s: measured again, wants %v", name, u.Wants)
				}
			}
		}
		for range 10 {
			now += 2 * second
			g.Report(now)
		}
		if _, ok := g.Inspect(now, "k"); ok {
			t.Errorf("%s: nobody uses it, and it is there", name)
		}
	}
}

func TestAStatementIsToldEarlyAndOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		rule    dynamicconfig.Rule
		options []Option
	}{
		"eager":     {weighted(1e6), []Option{WithEager("request-weighted"), WithSeed(1)}},
		"in flight": {inFlightRule(10), nil},
	} {
		g := NewGroup(snapshot(t, tt.rule), 1, tt.options...)
		k := g.For("k")
		k.Level(Now())
		at := Now()
		early := func() (n int) {
			for until := at + second; at < until; at += Instant(time.Millisecond) {
				for _, b := range g.Early(at) {
					if b.Usage.Wants[0] != 50 {
						t.Errorf("%s: wants %v", name, b.Usage.Wants)
					}
					g.Fail(at, b, nil)
					n++
				}
				k.AllowAt(at, 1) // a demand of 1000/s, which is not what was stated
			}
			return n
		}
		answer(t, g, at+1, 0.5, 10, rpc.FloorNone, time.Minute)
		k.SetDemand(50)
		at += second
		if n := early(); n != 1 {
			t.Errorf("%s: told %d times", name, n)
		}
		k.SetDemand(50)
		if n := early(); n != 0 {
			t.Errorf("%s: told %d times that nothing changed", name, n)
		}
	}
}

// Deciders lend more than what was measured. What was stated is enough.
func TestWhoStatesADemandGetsNoMore(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 1, WithWants("request-weighted"))
	k := g.For("k")
	now := Now()
	for _, tt := range []struct{ states, lent, limit, burst float64 }{
		{80, 0.88, 80, 80}, {80, 0.5, 50, 50}, {Measured, 0.88, 88, 88}, {0, 0.1, 0, 1},
	} {
		k.SetDemand(tt.states)
		now += second
		take(k, now, 1)
		answer(t, g, now, tt.lent, 0, rpc.FloorNone, time.Minute)
		if l := k.Level(now); math.Abs(float64(l.Limit)-tt.limit) > 1e-6 || math.Abs(l.Burst-tt.burst) > 1e-6 {
			t.Errorf("who states %v and is lent %v has %v/s and a burst of %v; want %v and %v", tt.states, tt.lent, l.Limit, l.Burst, tt.limit, tt.burst)
		}
	}
}

func TestAStatementStaysWhenTheRuleChanges(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(10)), 1)
	k := g.For("k")
	k.SetDemand(5)
	now := Now()
	migrating := weighted(10)
	migrating.Migration = &dynamicconfig.Migration{From: "request-weighted", To: "other", Mode: dynamicconfig.ModeOld}
	g.Configure(now, snapshot(t, migrating))
	now += second
	for _, b := range g.Report(now) {
		if b.Usage.Wants == nil || b.Usage.Wants[0] != 5 {
			t.Errorf("%s: %v", b.Usage.Algorithm, b.Usage.Wants)
		}
	}
	g.Configure(now, snapshot(t, inFlightRule(10))) // events/s are not slots
	if got := wanted(t, g, now+second); got != 0 {
		t.Errorf("wants %v slots", got)
	}
}

func TestKeysOfASharedRuleHaveOneDemand(t *testing.T) {
	rule := weighted(10)
	rule.Key, rule.Shared = "*", true
	g := NewGroup(snapshot(t, rule), 1)
	g.For("a").SetDemand(5)
	g.For("b").SetDemand(6)
	if got := wanted(t, g, Now()+second); got != 6 {
		t.Errorf("wants %v", got)
	}
}

func TestADemandForNothingThatIsLimited(t *testing.T) {
	NewGroup(snapshot(t), 1).For("k").SetDemand(5) // no rule
	NewGroup(snapshot(t), 1).For("").SetDemand(5)  // no key
	NewBucket(1, 1).SetDemand(5)
}

func TestWhoWaitsIsDemand(t *testing.T) {
	for name, options := range map[string][]Option{
		"wants": {WithWants("request-weighted")},
		"eager": {WithEager("request-weighted"), WithSeed(1)},
	} {
		bubble(t, func(t *testing.T) {
			rule := weighted(10)
			rule.Burst = 1
			g := NewGroup(snapshot(t, rule), 1, options...)
			k := g.For("k")
			ctx, cancel := context.WithCancel(t.Context())
			var loops sync.WaitGroup
			for range 30 { // each goes on as soon as it may: 10/s is what they get, and not what they want
				loops.Go(func() {
					for k.Wait(ctx) == nil {
					}
				})
			}
			var got float64
			for range 12 {
				time.Sleep(time.Second)
				for _, b := range append(g.Early(Now()), g.Report(Now())...) {
					got = b.Usage.Wants[0]
					g.Fail(Now(), b, nil)
				}
			}
			// They are served 10/s, and 29 wait.
			if got < 50 || got > 100 {
				t.Errorf("%s: wants %v", name, got)
			}
			cancel()
			loops.Wait()
		})
	}
}

// Of what is not yet known of little demand, e^(-1/3) is left after a second. Of
// much, a mean over less time is no less certain.
func TestDemandIsAMovingAverage(t *testing.T) {
	for rate, means := range map[int][]float64{
		20:   {5.7, 9.7, 12.6},
		100:  {39, 63, 78},
		5000: {5000, 5000, 5000},
	} {
		g := NewGroup(snapshot(t, weighted(1e4)), 1, WithWants("request-weighted"))
		k := g.For("k")
		k.Level(0)
		answered := func(now Instant) float64 {
			b, u := one(t, g, now)
			err := g.Apply(now, b, nil, &rpc.Grants{Weight: []float64{1}, Burst: []float64{1e4}, Used: []float64{0}, Lease: []time.Duration{time.Minute}})
			if err != nil {
				t.Fatal(err)
			}
			return u.Wants[0]
		}
		for i, want := range means {
			take(k, Instant(i)*second, rate)
			if got := answered(Instant(i+1) * second); math.Abs(got-want) > 0.01*float64(rate) {
				t.Errorf("after %d s of %d/s: %v, want %v", i+1, rate, got, want)
			}
		}
	}
}

// However they arrive, as many as there are tokens are let through, and one
// after the other: no arrival puts off those who wait.
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

// What a key had goes to others at once, and not at the end of its lease.
func TestTheLastReportOfAKeyWantsNothing(t *testing.T) {
	for name, rule := range map[string]dynamicconfig.Rule{
		"rate": weighted(100), "in flight": inFlightRule(100),
		"rate, failing": weighted(100), "in flight, failing": inFlightRule(100),
	} {
		answered := !strings.HasSuffix(name, "failing")
		rule.IdleAfter = time.Second
		g := NewGroup(snapshot(t, rule), 1, WithWants("request-weighted"))
		k := g.For("k")
		take(k, 0, 90)
		for _, h := range hold(t, k, 0, 90) {
			h.Release()
		}
		var told []float64
		for now := second; now < 60*second; now += second {
			for _, b := range g.Report(now) {
				told = append(told, b.Usage.Wants[0])
				if !answered {
					g.Fail(now, b, nil)
					continue
				}
				err := g.Apply(now, b, nil, &rpc.Grants{Weight: []float64{0}, Burst: []float64{0}, Used: []float64{0}, Lease: []time.Duration{0}})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := len(told); answered && (n < 3 || n > 40 || told[n-1] != 0 || told[n-2] == 0) {
			t.Errorf("%s: told %v", name, told)
		}
		if _, ok := g.Inspect(60*second, "k"); ok {
			t.Errorf("%s: nobody uses it, and it is there", name)
		}
	}
}
