// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

var (
	reportsWants = WithAlgorithm("request-weighted", dynamicconfig.Traits{Wants: true})
	reportsEarly = Option(func(c *keys.Config) {
		WithAlgorithm("request-weighted", dynamicconfig.Traits{Early: true})(c)
		WithSeed(1)(c)
	})
)

// wanted is what g reports that it wants of its only key; -1 for nothing.
func wanted(t testing.TB, g *Group, now stage.Instant) float64 {
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
		"wants":     {weighted(10), []Option{reportsWants}, 0},
		"early":     {weighted(10), []Option{reportsEarly}, 0},
		"in flight": {inFlightRule(10), nil, 0},
	} {
		rule := tt.rule
		rule.IdleAfter = 5 * time.Second
		g := NewGroup(snapshot(t, rule), 1, tt.options...)
		k := g.For("k")
		now := stage.Now()
		for _, step := range []struct{ state, want float64 }{
			{7.5, 7.5},
			{0, 0},
			{math.Inf(1), 1 << 53},
			{3, 3},
		} {
			k.SetDemand(step.state)
			// Nobody uses the key. The host neither puts it to sleep nor forgets it.
			for range 10 {
				now += 2 * second
				if g.Manual().Early(now); name == "early" {
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
			for _, b := range g.Manual().Report(now + second) {
				if u := b.Usage; u.Wants != nil && u.Wants[0] != tt.measured || u.Wants == nil && tt.measured >= 0 {
					t.Errorf("%s: measured again, wants %v", name, u.Wants)
				}
			}
		}
		for range 10 {
			now += 2 * second
			g.Manual().Report(now)
		}
		if _, ok := g.Manual().Inspect(now, "k"); ok {
			t.Errorf("%s: it is kept although nobody uses it", name)
		}
	}
}

func TestAStatementIsReportedEarlyAndOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		rule    dynamicconfig.Rule
		options []Option
	}{
		"early":     {weighted(1e6), []Option{reportsEarly}},
		"in flight": {inFlightRule(10), nil},
	} {
		g := NewGroup(snapshot(t, tt.rule), 1, tt.options...)
		k := g.For("k")
		keyOf(k).Level(stage.Now())
		at := stage.Now()
		early := func() (n int) {
			for until := at + second; at < until; at += stage.Instant(time.Millisecond) {
				for _, b := range g.Manual().Early(at) {
					if b.Usage.Wants[0] != 50 {
						t.Errorf("%s: wants %v", name, b.Usage.Wants)
					}
					g.Manual().Fail(at, b, nil)
					n++
				}
				allowAt(k, at, 1) // a demand of 1000/s, which is not what was stated
			}
			return n
		}
		answer(t, g, at+1, 0.5, 10, usage.FloorNone, time.Minute)
		k.SetDemand(50)
		at += second
		if n := early(); n != 1 {
			t.Errorf("%s: reported %d times", name, n)
		}
		k.SetDemand(50)
		if n := early(); n != 0 {
			t.Errorf("%s: reported %d times that nothing changed", name, n)
		}
	}
}

// Owners lend more than what was measured, and hosts use no more than what they
// stated.
func TestAHostUsesNoMoreThanItStated(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 1, reportsWants)
	k := g.For("k")
	now := stage.Now()
	for _, tt := range []struct{ states, lent, limit, burst float64 }{
		{80, 0.88, 80, 80}, {80, 0.5, 50, 50}, {Measured, 0.88, 88, 88}, {0, 0.1, 0, 1},
	} {
		k.SetDemand(tt.states)
		now += second
		take(k, now, 1)
		answer(t, g, now, tt.lent, 0, usage.FloorNone, time.Minute)
		if l := keyOf(k).Level(now); math.Abs(float64(l.Limit)-tt.limit) > 1e-6 || math.Abs(l.Burst-tt.burst) > 1e-6 {
			t.Errorf("a host that states %v and is lent %v has %v/s and a burst of %v; want %v and %v", tt.states, tt.lent, l.Limit, l.Burst, tt.limit, tt.burst)
		}
	}
}

func TestAStatementStaysWhenTheRuleChanges(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(10)), 1)
	k := g.For("k")
	k.SetDemand(5)
	now := stage.Now()
	migrating := weighted(10)
	migrating.Migration = &dynamicconfig.Migration{From: "request-weighted", To: "other", Mode: dynamicconfig.ModeOld}
	g.Manual().Configure(now, snapshot(t, migrating))
	now += second
	for _, b := range g.Manual().Report(now) {
		if b.Usage.Wants == nil || b.Usage.Wants[0] != 5 {
			t.Errorf("%s: %v", b.Usage.Algorithm, b.Usage.Wants)
		}
	}
	g.Manual().Configure(now, snapshot(t, inFlightRule(10))) // events/s are not slots
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
	if got := wanted(t, g, stage.Now()+second); got != 6 {
		t.Errorf("wants %v", got)
	}
}

func TestADemandForNothingThatIsLimited(t *testing.T) {
	NewGroup(snapshot(t), 1).For("k").SetDemand(5) // no rule
	NewGroup(snapshot(t), 1).For("").SetDemand(5)  // no key
	NewBucket(1, 1).SetDemand(5)
}

func TestWaitersAreDemand(t *testing.T) {
	for name, options := range map[string][]Option{
		"wants": {reportsWants},
		"early": {reportsEarly},
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
				for _, b := range append(g.Manual().Early(stage.Now()), g.Manual().Report(stage.Now())...) {
					got = b.Usage.Wants[0]
					g.Manual().Fail(stage.Now(), b, nil)
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

// Other hosts get a key's part as soon as its host forgets the key, and not when its lease ends.
func TestTheLastReportOfAKeyWantsNothing(t *testing.T) {
	for name, rule := range map[string]dynamicconfig.Rule{
		"rate": weighted(100), "in flight": inFlightRule(100),
		"rate, failing": weighted(100), "in flight, failing": inFlightRule(100),
	} {
		answered := !strings.HasSuffix(name, "failing")
		rule.IdleAfter = time.Second
		g := NewGroup(snapshot(t, rule), 1, reportsWants)
		k := g.For("k")
		if take(k, 0, 90); rule.InFlight {
			for _, h := range hold(t, k, 0, 90) {
				h.Release()
			}
		}
		var wants []float64
		for now := second; now < 60*second; now += second {
			for _, b := range g.Manual().Report(now) {
				wants = append(wants, b.Usage.Wants[0])
				if !answered {
					g.Manual().Fail(now, b, nil)
					continue
				}
				err := g.Manual().Apply(now, b, nil, &usage.Grants{Weight: []float64{0}, Burst: []float64{0}, Used: []float64{0}, Lease: []time.Duration{0}})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := len(wants); answered && (n < 3 || n > 40 || wants[n-1] != 0 || wants[n-2] == 0) {
			t.Errorf("%s: reported %v", name, wants)
		}
		if _, ok := g.Manual().Inspect(60*second, "k"); ok {
			t.Errorf("%s: it is kept although nobody uses it", name)
		}
	}
}

// A demand belongs to the key, and not to the rule that the key has now.
func TestAStatementOutlivesTheRule(t *testing.T) {
	other := weighted(10)
	other.Key = "other"
	migrating := weighted(10)
	migrating.Migration = &dynamicconfig.Migration{From: "request-weighted", To: "other", Mode: dynamicconfig.ModeOld}
	start := stage.Now()
	for name, tt := range map[string]struct {
		rules []dynamicconfig.Rule
		state float64 // under the last rule but one
		want  float64
	}{
		"vanishes":              {[]dynamicconfig.Rule{weighted(10), other, weighted(10)}, -2, 5},
		"vanishes while moving": {[]dynamicconfig.Rule{migrating, other, weighted(10)}, -2, 5},
		"is slots for a while":  {[]dynamicconfig.Rule{weighted(10), inFlightRule(10), weighted(10)}, -2, 5},
		"vanishes twice":        {[]dynamicconfig.Rule{inFlightRule(10), other, weighted(10), other, inFlightRule(10)}, -2, 5},
		"stated without a rule": {[]dynamicconfig.Rule{weighted(10), other, weighted(10)}, 7, 7},
		"ended without a rule":  {[]dynamicconfig.Rule{weighted(10), other, weighted(10)}, Measured, -1},
		"ended as slots":        {[]dynamicconfig.Rule{weighted(10), inFlightRule(10), weighted(10)}, Measured, -1},
	} {
		g, now := NewGroup(snapshot(t, tt.rules[0]), 1), start
		k := g.For("k")
		k.SetDemand(5)
		last := len(tt.rules) - 1
		for i := range last {
			for range 20 { // the key stays live
				now += second
				g.Manual().Report(now)
			}
			if i == last-1 && tt.state != -2 {
				keyOf(k).SetDemand(now, tt.state)
			}
			g.Manual().Configure(now, snapshot(t, tt.rules[i+1]))
			keyOf(k).Level(now)
		}
		if got := wanted(t, g, now+second); got != tt.want {
			t.Errorf("%s: wants %v, want %v", name, got, tt.want)
		}
	}
}

// The demand that a service stated last is in force, whether the key's rule is shared, or was when it was stated.
func TestAStatementUnderASharedRuleReplacesAnEarlierOne(t *testing.T) {
	own := weighted(10)
	own.Key = "*"
	shared := own
	shared.Shared = true
	for _, tt := range []struct {
		name                 string
		before, during, want float64
	}{
		{"another", 5, 7, 7},
		{"the first", Measured, 7, 7},
		{"none any more", 5, Measured, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewGroup(snapshot(t, own), 1)
			k, now := g.For("k"), stage.Now()
			k.SetDemand(tt.before)
			g.Manual().Configure(now, snapshot(t, shared))
			k.SetDemand(tt.during)
			if got := wantedOf(g, now+second, "*"); got != tt.during {
				t.Errorf("the shared key wants %v, want %v", got, tt.during)
			}
			g.Manual().Configure(now+second, snapshot(t, own))
			if got := wantedOf(g, now+2*second, "k"); got != tt.want {
				t.Errorf("the key wants %v, want %v", got, tt.want)
			}
		})
	}
}

// wantedOf is what g reports that it wants of a key; -1 for nothing.
func wantedOf(g *Group, now stage.Instant, key string) float64 {
	for _, b := range g.Manual().Report(now) {
		if at := slices.Index(b.Usage.Keys, key); at >= 0 && b.Usage.Wants != nil {
			return b.Usage.Wants[at]
		}
	}
	return -1
}
