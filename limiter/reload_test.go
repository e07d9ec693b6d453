// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

func TestARemoteNeedNotBeComparable(t *testing.T) {
	asked := 0
	r := remoteFunc(func(_ context.Context, op stage.Operation) (stage.Outcome, error) {
		if op.Kind == stage.TakeTokens {
			asked++
		}
		return stage.Outcome{OK: true, Left: 9}, nil
	})
	under := func(algorithm string) *dynamicconfig.Snapshot {
		return snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 10, Algorithm: algorithm})
	}
	g := NewGroup(under("own"), 1, WithRemote("own", r), WithRemote(Auto, r), WithBackground(func(f func()) { f() }))
	for _, algorithm := range []string{"own", "own", Even, Auto, Auto, "own"} {
		g.Configure(under(algorithm))
		if asked = 0; !g.For("k").Allow() {
			t.Errorf("%s refuses", algorithm)
		}
		if asks := asked == 1; asks != (algorithm != Even) {
			t.Errorf("%s asks: %v", algorithm, asks)
		}
	}
}

func TestAShorterIntervalIsInForceAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		every := func(interval time.Duration) *dynamicconfig.Snapshot {
			s, err := dynamicconfig.Config{
				Properties: dynamicconfig.Properties{UpdateInterval: interval}, Rules: []dynamicconfig.Rule{weighted(10)},
			}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		var reports atomic.Int64
		g := NewGroup(every(time.Hour), 1)
		g.For("k").Allow()
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() {
			g.Run(ctx, updater(func(context.Context, *usage.Report, func(usage.Part, *usage.Grants, error)) { reports.Add(1) }))
		})
		time.Sleep(time.Hour + time.Second) // the first report is past
		reports.Store(0)
		g.Configure(every(time.Second))
		time.Sleep(10*time.Second + time.Millisecond)
		cancel()
		running.Wait()
		if n := reports.Load(); n != 10 {
			t.Errorf("%d reports in 10 s, want one a second", n)
		}
	})
}

// A key that was used gets no second burst from a config that is taken back.
func TestAReloadThatIsTakenBackGivesNoSecondBurst(t *testing.T) {
	other := alone(1, 1)
	other.Key = "other"
	shared := alone(0.01, 10)
	shared.Key, shared.Shared = "*", true
	for name, between := range map[string]dynamicconfig.Rule{"no rule": other, "slots": inFlightRule(5), "shared": shared} {
		g := NewGroup(snapshot(t, alone(0.01, 10)), 1)
		k := g.For("k")
		got := take(k, 0, 20)
		g.Manual().Configure(second, snapshot(t, between))
		g.Manual().Configure(2*second, snapshot(t, between))
		g.Manual().Configure(101*second, snapshot(t, alone(0.01, 10)))
		if got += take(k, 101*second, 20); got != 11 {
			t.Errorf("%s: %d of a burst of 10 and one token in 101 s", name, got)
		}
	}
}

func TestALowerMaxKeysGivesNoSecondBurst(t *testing.T) {
	most := func(n int) *dynamicconfig.Snapshot {
		return snapshot(t, dynamicconfig.Rule{Key: "*", Limit: 0.01, Burst: 10, Algorithm: Even, MaxKeys: n, IdleAfter: time.Hour})
	}
	g := NewGroup(most(3), 1)
	got := take(g.For("a"), 0, 20) + take(g.For("b"), 0, 20)
	g.For("unused").Tokens()
	g.Manual().Configure(second, most(1))
	if _, live := g.Inspect("unused"); live {
		t.Error("a key that loses nothing is not forgotten")
	}
	if allowAt(g.For("c"), second, 1) {
		t.Error("another key is admitted")
	}
	g.Manual().Configure(2*second, most(3))
	if got += take(g.For("a"), 2*second, 20) + take(g.For("b"), 2*second, 20); got != 20 {
		t.Errorf("%d of two bursts of 10", got)
	}
}

func TestSlotsThatAreHeldCountAfterAReloadThatIsTakenBack(t *testing.T) {
	other := alone(1, 1)
	other.Key = "other"
	for name, between := range map[string]dynamicconfig.Rule{"no rule": other, "a rate": alone(1, 1)} {
		g := NewGroup(snapshot(t, inFlightRule(5)), 1)
		k, held := g.For("k"), 0
		acquire := func() {
			for range 10 {
				if _, ok := k.TryAcquire(1); ok {
					held++
				}
			}
		}
		acquire()
		g.Configure(snapshot(t, between))
		g.Configure(snapshot(t, inFlightRule(5)))
		if acquire(); held != 5 {
			t.Errorf("%s: %d of 5 slots are held", name, held)
		}
	}
}

func TestMetricsHaveWhatWasUsedBeforeTwoReloads(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	g := NewGroup(snapshot(t, alone(100, 100)), 1, WithScope(scope))
	take(g.For("k"), 0, 50)
	other := alone(1, 1)
	other.Key = "other"
	g.Manual().Configure(1, snapshot(t, other))
	g.Manual().Configure(2, snapshot(t, other))
	g.Manual().Report(second)
	if n := counted(scope)["limiter.allowed/k/"]; n != 50 {
		t.Errorf("%d are counted as allowed, want 50", n)
	}
}

// A grant of little leaves the fallback what it has.
func TestAReloadLeavesTheFallbackWhatItHas(t *testing.T) {
	rule := weighted(1)
	rule.Burst = 30
	for _, reloads := range []int{0, 1, 2} {
		g := NewGroup(snapshot(t, rule), 1)
		k := g.For("k")
		keyOf(k).Level(0)
		answer(t, g, second, 0.1, 1, usage.FloorNone, time.Minute)
		allowAt(k, second, 10)
		for range reloads {
			g.Manual().Configure(2*second, snapshot(t, rule))
		}
		g.Manual().Report(62 * second) // the lease is over
		if got := take(k, 62*second, 100); got < 20 || got > 30 {
			t.Errorf("after %d reloads and 60 s the fallback allows %d of a burst of 30 at 1/s", reloads, got)
		}
	}
}

// The host remembers the tokens that a key had for as long as they matter, and not only while the
// key is in use.
func TestAReloadThatIsTakenBackLateGivesNoSecondBurst(t *testing.T) {
	other := alone(1, 1)
	other.Key = "other"
	slots, bucket := inFlightRule(5), alone(0.01, 5)
	for name, tt := range map[string]struct{ rule, between dynamicconfig.Rule }{
		"slots, no rule": {slots, other}, "slots, a rate": {slots, alone(1, 1)},
		"a rate, no rule": {bucket, other}, "a rate, slots": {bucket, slots},
	} {
		g := NewGroup(snapshot(t, tt.rule), 1)
		k, got := g.For("k"), 0
		use := func(now stage.Instant) {
			if got += take(k, now, 10); tt.rule.InFlight {
				for range 10 {
					if _, ok := k.TryAcquire(1); ok {
						got++
					}
				}
			}
		}
		use(0)
		g.Manual().Configure(second, snapshot(t, tt.between))
		for now := 2 * second; now < 60*second; now += second {
			g.Manual().Report(now)
		}
		g.Manual().Configure(60*second, snapshot(t, tt.rule))
		if use(60 * second); got != 5 {
			t.Errorf("%s: %d of 5", name, got)
		}
	}

	g := NewGroup(snapshot(t, bucket), 1)
	take(g.For("k"), 0, 10)
	g.Manual().Configure(second, snapshot(t, other))
	for now := 2 * second; now < 600*second; now += second {
		g.Manual().Report(now)
	}
	if _, live := g.Inspect("k"); live {
		t.Error("a key whose bucket would be full is not forgotten")
	}
}

func TestAKeyWhoseRuleVanishedGetsNoSecondBurstByALowerMaxKeys(t *testing.T) {
	most := func(n int) *dynamicconfig.Snapshot {
		return snapshot(t, dynamicconfig.Rule{Key: "*", Limit: 0.01, Burst: 10, Algorithm: Even, MaxKeys: n, IdleAfter: time.Hour})
	}
	other := alone(1, 1)
	other.Key = "other"
	g := NewGroup(most(2), 1)
	got := take(g.For("a"), 0, 20) + take(g.For("b"), 0, 20)
	for _, s := range []*dynamicconfig.Snapshot{snapshot(t, other), most(1), most(2)} {
		g.Manual().Configure(second, s)
	}
	if got += take(g.For("a"), 2*second, 20) + take(g.For("b"), 2*second, 20); got != 20 {
		t.Errorf("%d of two bursts of 10", got)
	}
}

func TestAMigrationThatIsTakenBackGivesNoSecondBurst(t *testing.T) {
	migrating := alone(0.01, 10)
	migrating.Migration = &dynamicconfig.Migration{From: Even, To: "elastic", Mode: dynamicconfig.ModeOld}
	other := alone(1, 1)
	other.Key = "other"
	g := NewGroup(snapshot(t, migrating), 1)
	k := g.For("k")
	got := take(k, 0, 20)
	g.Manual().Configure(second, snapshot(t, other))
	g.Manual().Configure(2*second, snapshot(t, migrating))
	if got += take(k, 2*second, 20); got != 10 {
		t.Errorf("%d of a burst of 10", got)
	}
}

// The bucket of a rule that moves elsewhere is charged with what this host used.
func TestAMoveToARemoteBucketGivesNoSecondBurst(t *testing.T) {
	other := alone(1, 1)
	other.Key = "other"
	elastic := alone(0.01, 10)
	elastic.Algorithm = "elastic"
	to := func(algorithm string, migrates bool) dynamicconfig.Rule {
		r := alone(0.01, 10)
		if r.Algorithm = algorithm; migrates {
			r.Migration = &dynamicconfig.Migration{From: Even, To: algorithm, Mode: dynamicconfig.ModeNew}
		}
		return r
	}
	for name, path := range map[string][]dynamicconfig.Rule{
		"even to exact":            {alone(0.01, 10), to("exact", false)},
		"elastic to exact":         {elastic, to("exact", false)},
		"even to auto":             {alone(0.01, 10), to(Auto, false)},
		"even vanishes, and exact": {alone(0.01, 10), other, to("exact", false)},
		"exact vanishes":           {to("exact", false), other, to("exact", false)},
		"exact to redis":           {to("exact", false), to("redis", false)},
		"a migration that begins":  {alone(0.01, 10), to("exact", true)},
		"exact, even and exact":    {to("exact", false), alone(0.01, 10), to("exact", false)},
	} {
		for _, first := range []int{20, 4, 0} {
			var now stage.Instant
			at := func() stage.Instant { return now }
			g := NewGroup(snapshot(t, path[0]), 1, WithRemote("exact", newElsewhere(at)), WithRemote("redis", newElsewhere(at)),
				WithRemote(Auto, newElsewhere(at)), WithBackground(func(f func()) { f() }))
			k := g.For("k")
			got := take(k, now, first)
			for _, next := range path[1:] {
				now += second
				g.Manual().Configure(now, snapshot(t, next))
			}
			got += take(k, now, 20)
			if least := min(10, 20-got); got > 10 || name != "exact, even and exact" && got < least {
				t.Errorf("%s: %d of a burst of 10, when %d were asked for first", name, got, first)
			}
		}
	}
}

// While a rule is shared, its common key may be forgotten: what a key had before
// is not.
func TestASharedRuleThatIsTakenBackGivesNoSecondBurst(t *testing.T) {
	rule := alone(0.001, 10)
	rule.Key, rule.IdleAfter = "k:*", 5*time.Second
	shared := rule
	shared.Shared = true
	g, now := NewGroup(snapshot(t, rule), 1), stage.Now()
	k := g.For("k:1")
	admitted := take(k, now, 20)
	g.Manual().Configure(now, snapshot(t, shared))
	for range 40 {
		now += second
		g.Manual().Report(now)
	}
	if g.keys().Live("k:*") != nil {
		t.Fatal("the common key was not forgotten")
	}
	keyOf(k).Level(now) // it has a new one
	g.Manual().Configure(now, snapshot(t, rule))
	if admitted += take(k, now, 20); admitted != 10 {
		t.Errorf("%d of a burst of 10", admitted)
	}
}
