// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// asleep is a group of 4 hosts with a key that sleeps, after it was granted
// half of its limit.
func asleep(t *testing.T, change func(*dynamicconfig.Rule)) (*Group, *Limiter) {
	t.Helper()
	g, k, _ := asleepWithOther(t, change)
	return g, k
}

// asleepWithOther is asleep, with a Limiter that For gave before the key was live.
func asleepWithOther(t *testing.T, change func(*dynamicconfig.Rule)) (*Group, *Limiter, *Limiter) {
	t.Helper()
	rule := weighted(100)
	rule.Key, rule.IdleAfter = "*", time.Minute
	if change != nil {
		change(&rule)
	}
	g := NewGroup(snapshot(t, rule), 4)
	k, other := g.For("k"), g.For("k")
	take(k, 0, 10)
	answer(t, g, second, 0.5, 50, usage.FloorNone, time.Hour)
	g.Manual().Report(5 * second / 2)
	if _, live := g.Manual().Inspect(5*second/2, "k"); !live {
		t.Fatal("it sleeps, though it was used less than two intervals ago")
	}
	g.Manual().Report(11 * second)
	if _, live := g.Manual().Inspect(11*second, "k"); live || g.keys().Live("k") != keyOf(k) {
		t.Fatal("it does not sleep")
	}
	return g, k, other
}

func TestASleepingKeyWakesUpAsANewOne(t *testing.T) {
	g, k := asleep(t, nil)
	if got := take(k, 12*second, 100); got != 25 {
		t.Errorf("it wakes up with %d tokens, want an even share of the burst, 25", got)
	}
	if s := only(t, g, 12*second, "k"); !s.Fallback || s.Level.Limit != 25 {
		t.Errorf("it woke up as %+v", s)
	}
	if u := g.Manual().Report(13 * second)[0].Usage; u.Len() != 1 || u.Allowed[0] != 25 || u.Rejected[0] != 75 || u.Elapsed[0] != time.Second {
		t.Errorf("reported %+v", u)
	}
	if got := g.keys().Counted("k"); got != 1 {
		t.Errorf("it counts as %d keys", got)
	}
	for range 3 { // it may go on like that
		g.Manual().Report(100 * second)
	}
}

func TestASleepingKeyKeepsItsPlaceUntilIdleAfter(t *testing.T) {
	g, k := asleep(t, func(r *dynamicconfig.Rule) { r.MaxKeys = 1 })
	if allowAt(g.For("other"), 12*second, 1) {
		t.Error("there is room for another key while one sleeps")
	}
	g.Manual().Report(59 * second)
	if g.keys().Live("k") == nil {
		t.Error("forgotten before idle_after")
	}
	g.Manual().Report(62 * second)
	if g.keys().Live("k") != nil {
		t.Error("not forgotten after idle_after")
	}
	if !allowAt(g.For("other"), 62*second, 1) {
		t.Error("there is no room for another key")
	}
	if allowAt(k, 62*second, 1) {
		t.Error("both have room")
	}
}

func TestSleepingKeysFollowConfig(t *testing.T) {
	g, k := asleep(t, nil)
	rule := weighted(400)
	rule.Key = "*"
	g.Manual().Configure(12*second, snapshot(t, rule))
	if got := take(k, 12*second, 1000); got != 100 {
		t.Errorf("it wakes up with %d tokens, want an even share of the new burst, 100", got)
	}
	if got := g.keys().Counted("k"); got != 1 {
		t.Errorf("it counts as %d keys", got)
	}
}

func TestWhoHoldsAnotherLimiterWakesTheKeyUp(t *testing.T) {
	_, k, other := asleepWithOther(t, nil)
	if got := take(other, 12*second, 2); got != 2 {
		t.Fatalf("%d of 2 allowed", got)
	}
	if got := take(k, 12*second, 100); got != 23 {
		t.Errorf("%d tokens are left, want 23", got)
	}
}

func TestAKeyThatOwesSomethingDoesNotSleep(t *testing.T) {
	rule := weighted(100)
	rule.IdleAfter = time.Hour
	g := NewGroup(snapshot(t, rule), 1)
	k := g.For("k")
	take(k, 0, 10)
	for now := second; now < 10*second; now += second {
		g.Manual().Report(now) // nobody answers
	}
	if _, live := g.Manual().Inspect(10*second, "k"); !live {
		t.Error("it sleeps, though its usage was never answered")
	}
}

func TestAKeyDoesNotSleepWithAnEmptyBucket(t *testing.T) {
	rule := weighted(0.1) // a token in ten seconds
	rule.IdleAfter = time.Hour
	g := NewGroup(snapshot(t, rule), 1)
	k := g.For("k")
	take(k, 0, 1)
	for now := second; now < 9*second; now += second {
		answer(t, g, now, 1, 0, usage.FloorNone, time.Hour)
		if got := take(k, now, 0); got != 0 || keyOf(k).Level(now).Tokens >= 1 {
			t.Fatalf("at %v it forgot that its token was taken", now)
		}
	}
	if _, live := g.Manual().Inspect(9*second, "k"); !live {
		t.Error("it sleeps")
	}
}

// Keys fall asleep and wake up while they are used and reported. Whatever is
// allowed must be reported once.
func TestSleepLosesNoUsage(t *testing.T) {
	rule := weighted(1e12)
	rule.Key, rule.IdleAfter = "*", time.Hour
	g := NewGroup(snapshot(t, rule), 1)
	var now, allowed, rejected, reported atomic.Int64
	report := func(by time.Duration) {
		at := stage.Instant(now.Add(int64(by)))
		for _, b := range g.Manual().Report(at) {
			for i, n := range b.Usage.Allowed {
				reported.Add(n + b.Usage.Rejected[i])
			}
			n := b.Usage.Len()
			if err := g.Manual().Apply(at, b, nil, &usage.Grants{
				Weight: make([]float64, n), Burst: make([]float64, n), Used: make([]float64, n), Lease: make([]time.Duration, n),
			}); err != nil {
				t.Error(err)
			}
		}
	}
	const users, rounds, keys = 4, 2000, 20
	var wg, reporter sync.WaitGroup
	stop := make(chan struct{})
	slept := 0
	reporter.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				report(time.Second) // a key is unused for two intervals all the time
				if keyOf(g.For("held")).Idle() {
					slept++
				}
				runtime.Gosched()
			}
		}
	})
	for u := range users {
		wg.Go(func() {
			held := g.For("held")
			for i := range rounds {
				for _, k := range []*Limiter{g.For(fmt.Sprint((i / 50 * (u + 1)) % keys)), held} {
					if allowAt(k, stage.Instant(now.Load()), 1) {
						allowed.Add(1)
					} else { // its clock stood still for long
						rejected.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	reporter.Wait()
	for range 3 {
		report(time.Second)
	}
	if reported.Load() != allowed.Load()+rejected.Load() || allowed.Load() < rounds {
		t.Errorf("%d allowed, %d rejected, %d reported", allowed.Load(), rejected.Load(), reported.Load())
	}
	t.Logf("the held key was asleep %d times", slept)
}

// The test measures how much memory a host needs for a key, with its name of 24 bytes. Cadence
// needs 1,026 bytes.
func TestMemoryPerKey(t *testing.T) {
	testrun.NotUnderRace(t, "it measures the memory of one goroutine")
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	rule := weighted(1e6)
	rule.Key, rule.MaxKeys, rule.IdleAfter = "*", n, time.Hour
	before := heap()
	g := NewGroup(snapshot(t, rule), 10, WithAlgorithm("request-weighted", dynamicconfig.Traits{Early: true}))
	key := func(i int) *Limiter { return g.For(fmt.Sprintf("frontend:domain-%09d", i)) }
	for i := range n {
		allowAt(key(i), 0, 1)
	}
	asleep := func() (idle int) {
		for i := range n {
			if keyOf(key(i)).Idle() {
				idle++
			}
		}
		return idle
	}
	answer(t, g, second, 0.5, 100, usage.FloorUnused, time.Minute)
	used := (heap() - before) / float64(n)
	answer(t, g, 20*second, 0.5, 100, usage.FloorUnused, time.Minute)
	for now := 21 * second; now < 40*second; now += second {
		g.Manual().Report(now)
	}
	g.Manual().Report(41 * second) // nobody had anything more to say about their shares
	for i := range stage.Instant(10) {
		g.Manual().Early(41*second + i*second/5)
	}
	idle := (heap() - before) / float64(n)
	runtime.KeepAlive(g)
	t.Logf("%.0f bytes for a key in use, %.0f for one that is idle", used, idle)
	if asleep() != n {
		t.Errorf("%d of %d keys sleep", asleep(), n)
	}
	if used > 740 || idle > 200 {
		t.Errorf("%.0f bytes for a key in use, %.0f for one that is idle; at most 740 and 200", used, idle)
	}
}
