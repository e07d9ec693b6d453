// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

func TestEvenShareUntilTheFirstGrantThenTheWeight(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 4)
	k := g.For("k")
	if got := take(k, 0, 100); got != 25 {
		t.Fatalf("without a grant: %d at once, want a quarter of the burst", got)
	}
	if s := only(t, g, 0, "k"); !s.Fallback || s.Level.Limit != 25 {
		t.Fatalf("without a grant: %+v", s)
	}
	answer(t, g, second/5, 0.9, 100, usage.FloorNone, time.Minute)
	s := only(t, g, second/5, "k")
	if s.Fallback || !near(float64(s.Level.Limit), 90) || !near(s.Level.Burst, 90) {
		t.Fatalf("with 0.9 of 100/s: %+v", s)
	}
	if !near(s.Level.Tokens, 5) {
		t.Fatalf("the first grant came with %v tokens; the fallback had 5 left", s.Level.Tokens)
	}
}

func TestFallsBackWhenTheLeaseEnds(t *testing.T) {
	for _, tt := range []struct {
		fallback dynamicconfig.Fallback
		want     rate.Limit
	}{
		{dynamicconfig.FallbackEven, 25},
		{dynamicconfig.FallbackOpen, rate.Inf},
		{dynamicconfig.FallbackClosed, 0},
		{dynamicconfig.FallbackSafe, 7},
	} {
		rule := weighted(100)
		rule.Fallback, rule.IdleAfter = tt.fallback, time.Hour
		if tt.fallback == dynamicconfig.FallbackSafe {
			rule.SafeCapacity = 7
		}
		g := NewGroup(snapshot(t, rule), 4)
		allowAt(g.For("k"), 0, 1)
		answer(t, g, second, 0.5, 100, usage.FloorNone, 10*time.Second)
		allowAt(g.For("k"), 10*second, 1) // else it would sleep
		g.Manual().Report(11*second - 1)
		if s := only(t, g, 11*second-1, "k"); s.Fallback || s.Level.Limit != 50 {
			t.Errorf("%v: within the lease: %+v", tt.fallback, s)
		}
		g.Manual().Report(11 * second)
		if s := only(t, g, 11*second, "k"); !s.Fallback || !near(float64(s.Level.Limit), float64(tt.want)) {
			t.Errorf("%v: after the lease: %+v", tt.fallback, s)
		}
		answer(t, g, 12*second, 0.5, 100, usage.FloorNone, 10*time.Second)
		if s := only(t, g, 12*second, "k"); s.Fallback {
			t.Errorf("%v: answered again: %+v", tt.fallback, s)
		}
	}
}

// Grant and fallback alternate as fast as they can. Over any stretch the host
// must not admit more than the larger rate gives, plus one burst.
func TestSwitchingGivesNoSecondBurst(t *testing.T) {
	rule := weighted(100)
	rule.IdleAfter = time.Hour
	g := NewGroup(snapshot(t, rule), 2) // even: 50/s
	k := g.For("k")
	admitted := 0
	now := stage.Instant(0)
	for i := range 200 {
		now = stage.Instant(i) * second / 10
		admitted += take(k, now, 100)
		if i%2 == 0 {
			answer(t, g, now, 0.6, 100, usage.FloorNone, time.Millisecond) // ends at the next report
		} else {
			g.Manual().Report(now)
		}
	}
	most := 60*float64(now)/1e9 + 60
	if float64(admitted) > most {
		t.Errorf("admitted %d in %v while switching, more than %v", admitted, time.Duration(now), most)
	}
	if float64(admitted) < 0.8*50*float64(now)/1e9 {
		t.Errorf("admitted %d in %v: switching starves the host", admitted, time.Duration(now))
	}
}

// A host that used little keeps the full burst of its fallback.
func TestFallbackOfALightHostIsFull(t *testing.T) {
	rule := weighted(100)
	rule.IdleAfter = time.Hour
	g := NewGroup(snapshot(t, rule), 2)
	k := g.For("k")
	take(k, 0, 1)
	answer(t, g, second, 0.01, 100, usage.FloorNone, time.Second)
	take(k, 10*second, 1)
	g.Manual().Report(10 * second)
	if s := only(t, g, 10*second, "k"); !s.Fallback || s.Level.Tokens != 49 {
		t.Errorf("after the lease of a light host: %+v, want 49 tokens", s)
	}
}

// A host that was suspended while an answer was under way does not begin a lease that
// ended meanwhile.
func TestAnAnswerThatIsOlderThanItsLeaseGrantsNothing(t *testing.T) {
	for _, gap := range []stage.Instant{9 * second, 10 * second, 3600 * second} {
		g := NewGroup(snapshot(t, weighted(100)), 10)
		k := g.For("k")
		take(k, 0, 1)
		answer(t, g, second, 0.9, 100, usage.FloorNone, 10*time.Second)
		take(k, 2*second, 1)
		now := 2*second + gap
		for _, b := range g.Manual().Report(2 * second) {
			if err := g.Manual().Apply(now, b, nil, grantOf(0.9, 90, 10*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		g.Manual().Report(now)
		if s := only(t, g, now, "k"); s.Fallback != (gap >= 10*second) {
			t.Errorf("an answer after %v: %+v", time.Duration(gap), s)
		}
	}
}

// The owner leases to others what a host held, from when the lease ends. It counts that from when
// it answered, which the host does not know. A host that counted from when it heard of the answer
// would go on after that.
func TestALeaseIsAsOldAsTheReportThatItAnswers(t *testing.T) {
	rates := inFlightRule(20)
	rates.InFlight = false
	for _, rule := range []dynamicconfig.Rule{rates, inFlightRule(20)} {
		rule.IdleAfter = time.Hour
		g := NewGroup(snapshot(t, rule), 10)
		use := func(now stage.Instant) {
			if !rule.InFlight {
				take(g.For("k"), now, 1)
			} else if slot, ok := tryAcquireAt(g.For("k"), now, 1); ok {
				slot.Release()
			}
		}
		use(0)
		for _, b := range g.Manual().Report(second) {
			if err := g.Manual().Apply(3*second, b, nil, grantOf(0.9, 18, 10*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		if s := only(t, g, 3*second, "k"); s.Fallback || s.Lease != 8*time.Second {
			t.Errorf("slots %v: answered after 2 s: %+v", rule.InFlight, s)
		}
		for _, now := range []stage.Instant{11*second - 1, 11 * second} {
			use(now)
			g.Manual().Report(now)
			if s := only(t, g, now, "k"); s.Fallback != (now == 11*second) {
				t.Errorf("slots %v: at %v, of 10 s from a report at 1 s on: %+v", rule.InFlight, time.Duration(now), s)
			}
		}
	}
}

func TestFloors(t *testing.T) {
	for _, tt := range []struct {
		floor        usage.Floor
		weight, used float64
		want         float64
	}{
		{usage.FloorNone, 0.1, 50, 10},
		{usage.FloorUnused, 0.1, 50, 25},   // room enough: even
		{usage.FloorUnused, 0.1, 90, 20},   // weight and what is unused
		{usage.FloorUnused, 0.1, 100, 10},  // nothing unused
		{usage.FloorUnused, 0.1, 1000, 10}, // never negative
		{usage.FloorUnused, 0.5, 0, 50},    // above even: as weighted
		{usage.FloorEven, 0.1, 1000, 25},
	} {
		g := NewGroup(snapshot(t, weighted(100)), 4)
		allowAt(g.For("k"), 0, 1)
		answer(t, g, second, tt.weight, tt.used, tt.floor, time.Minute)
		if s := only(t, g, second, "k"); !near(float64(s.Level.Limit), tt.want) || !near(s.Level.Burst, tt.want) {
			t.Errorf("%+v: limit %v burst %v", tt, s.Level.Limit, s.Level.Burst)
		}
	}
}

func TestAGrantOfNothingIsNoGrant(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 4)
	allowAt(g.For("k"), 0, 1)
	answer(t, g, second, 0, 0, usage.FloorNone, 0)
	if s := only(t, g, second, "k"); !s.Fallback {
		t.Errorf("a zero lease granted %+v", s)
	}
}

func TestReportsUsageOnceAndUntilItIsAnswered(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(10)), 1)
	k := g.For("k")
	take(k, 0, 15)
	first := g.Manual().Report(second)[0].Usage
	if first.Allowed[0] != 10 || first.Rejected[0] != 5 || first.Elapsed[0] != time.Second {
		t.Fatalf("first report: %+v", first)
	}
	take(k, 2*second, 3)
	again := g.Manual().Report(2 * second)[0] // the first was never answered
	if again.Usage.Allowed[0] != 13 || again.Usage.Rejected[0] != 5 || again.Usage.Elapsed[0] != 2*time.Second {
		t.Fatalf("after a lost report: %+v", again.Usage)
	}
	charge(keyOf(k), 2*second, 4)
	reserveAt(k, 2*second, 2, 0).settle(2*second, 0)
	grants := &usage.Grants{Weight: []float64{1}, Burst: []float64{10}, Used: []float64{5}, Lease: []time.Duration{time.Minute}}
	if err := g.Manual().Apply(2*second, again, []int{0}, grants); err != nil {
		t.Fatal(err)
	}
	last := g.Manual().Report(3 * second)[0].Usage
	if last.Allowed[0] != 4 || last.Rejected[0] != 0 || last.Elapsed[0] != time.Second || last.Weight[0] != 1 {
		t.Fatalf("after an answer: %+v; want the four that were charged", last)
	}
}

func TestAbsurdGrantsAreRefusedWhole(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	good := func() *usage.Grants {
		return &usage.Grants{Weight: []float64{.5}, Burst: []float64{5}, Used: []float64{5}, Lease: []time.Duration{time.Minute}}
	}
	for name, spoil := range map[string]func(*usage.Grants){
		"NaN weight":      func(g *usage.Grants) { g.Weight[0] = nan },
		"negative weight": func(g *usage.Grants) { g.Weight[0] = -1 },
		"weight above 1":  func(g *usage.Grants) { g.Weight[0] = 1.1 },
		"Inf burst":       func(g *usage.Grants) { g.Burst[0] = inf },
		"NaN used":        func(g *usage.Grants) { g.Used[0] = nan },
		"negative lease":  func(g *usage.Grants) { g.Lease[0] = -1 },
		"endless lease":   func(g *usage.Grants) { g.Lease[0] = math.MaxInt64 },
		"too few":         func(g *usage.Grants) { g.Weight = nil },
		"unknown floor":   func(g *usage.Grants) { g.Floor = 99 },
	} {
		g := NewGroup(snapshot(t, weighted(10)), 2)
		allowAt(g.For("k"), 0, 1)
		b := g.Manual().Report(second)[0]
		bad := good()
		spoil(bad)
		if err := g.Manual().Apply(second, b, nil, bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if s := only(t, g, second, "k"); !s.Fallback {
			t.Errorf("%s: in force: %+v", name, s)
		}
		if err := g.Manual().Apply(second, b, nil, good()); err != nil {
			t.Errorf("a good one after %s: %v", name, err)
		}
	}
}

func TestIdleKeysLeaveAndHeldLimitersComeBack(t *testing.T) {
	rule := weighted(10)
	rule.Key = "*"
	g := NewGroup(snapshot(t, rule), 1)
	held := g.For("k")
	take(held, 0, 10)
	g.Manual().Report(second)
	g.Manual().Report(5 * second)
	if _, live := g.Manual().Inspect(5*second, "k"); !live {
		t.Fatal("left before idle_after")
	}
	g.Manual().Report(7 * second)
	if _, live := g.Manual().Inspect(7*second, "k"); live {
		t.Fatal("still live after idle_after")
	}
	if got := take(held, 7*second, 20); got != 10 {
		t.Errorf("back with %d tokens, want the burst", got)
	}
	if other := g.For("k"); other != held {
		t.Error("the key has two limiters")
	}
	// The ten that the key used before it left were never answered: they are
	// reported again.
	if u := g.Manual().Report(8 * second)[0].Usage; u.Len() != 1 || u.Allowed[0] != 20 || u.Rejected[0] != 10 {
		t.Errorf("usage of a key that came back: %+v", u)
	}
}

func TestAKeyDoesNotLeaveWithAnEmptyBucket(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(rate.Limit(1.0/60))), 1) // one a minute
	k := g.For("k")
	take(k, 0, 1)
	for i := range stage.Instant(59) {
		g.Manual().Report(i * second)
		if got := take(g.For("k"), i*second, 1); got != 0 && i > 0 {
			t.Fatalf("second %d: forgot that its token was taken", i)
		}
	}
}

func TestHeldLimitersFollowConfigAndKeepTokens(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 1)
	k := g.For("k")
	take(k, 0, 70)
	g.Manual().Configure(0, snapshot(t, weighted(1000)))
	if s := only(t, g, 0, "k"); s.Level.Limit != 1000 || s.Level.Burst != 1000 || !near(s.Level.Tokens, 30) {
		t.Fatalf("after raising the limit: %+v, want 30 tokens", s)
	}
	g.Manual().Configure(0, snapshot(t, weighted(20)))
	if s := only(t, g, 0, "k"); !near(float64(s.Level.Limit), 20) || s.Level.Burst != 20 || s.Level.Tokens != 20 {
		t.Fatalf("after lowering the limit: %+v", s)
	}
	even := weighted(20)
	even.Algorithm = Even
	take(k, 0, 15)
	g.Manual().Configure(0, snapshot(t, even))
	if s := only(t, g, 0, "k"); s.Algorithm != Even || !near(s.Level.Tokens, 5) || s.Allowed != 85 {
		t.Fatalf("another algorithm: %+v, want 5 tokens and the counts", s)
	}
	g.Manual().Configure(0, snapshot(t)) // no rules: unmatched keys are allowed
	if got := take(k, 0, 100); got != 100 {
		t.Errorf("without a rule: %d of 100", got)
	}
	g.Manual().Configure(0, snapshot(t, weighted(20)))
	if got := take(k, 0, 100); got > 20 {
		t.Errorf("with a rule again: %d at once", got)
	}
}

func TestUsageIsNotLostWhenAKeyChangesItsAlgorithm(t *testing.T) {
	to := weighted(100)
	to.Algorithm = "other"
	g := NewGroup(snapshot(t, weighted(100)), 1)
	k := g.For("k")
	take(k, 0, 10)
	g.Manual().Report(second)
	take(k, second, 5)
	g.Manual().Configure(second, snapshot(t, to))
	take(k, second, 7)
	total := int64(0)
	for _, b := range g.Manual().Report(2 * second) {
		for i := range b.Usage.Keys {
			total += b.Usage.Allowed[i]
		}
	}
	if total != 22 {
		t.Errorf("reported %d of 22", total)
	}
}

func TestSetHostsChangesTheEvenShare(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 2)
	allowAt(g.For("k"), 0, 1)
	for hosts, want := range map[int]float64{10: 10, 1: 100, 0: 100, -3: 100} {
		g.Manual().SetHosts(0, hosts)
		if s := only(t, g, 0, "k"); !near(float64(s.Level.Limit), want) {
			t.Errorf("%d hosts: %v", hosts, s.Level.Limit)
		}
	}
}

func TestALowLimitIsNeverZero(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(5)), 50)
	if got := take(g.For("k"), 0, 10); got != 1 {
		t.Errorf("5/s over 50 hosts: %d at once, want 1", got)
	}
	if s := only(t, g, 0, "k"); !near(float64(s.Level.Limit), 0.1) {
		t.Errorf("5/s over 50 hosts: %v", s.Level.Limit)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	rule := weighted(10)
	rule.Key, rule.MaxKeys = "few:*", 2
	closed, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{rule}, Unmatched: dynamicconfig.UnmatchedDeny}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	g := NewGroup(closed, 1)
	for _, key := range []string{"few:1", "few:2"} {
		if !allowAt(g.For(key), 0, 1) {
			t.Errorf("%s is refused", key)
		}
	}
	for key, want := range map[string]error{
		"few:3":                    ErrTooManyKeys,
		"other":                    ErrUnmatched,
		"":                         ErrInvalidKey,
		strings.Repeat("x", 65536): ErrInvalidKey,
	} {
		l := g.For(key)
		if allowAt(l, 0, 1) || reserveAt(l, 0, 1, 0).OK() {
			t.Errorf("%.20q is allowed", key)
		}
		if err := l.Wait(context.Background()); !errors.Is(err, want) {
			t.Errorf("%.20q: Wait says %v, want %v", key, err, want)
		}
	}
	held := g.For("few:3")
	for i := range stage.Instant(20) {
		g.Manual().Report(i * second * 2)
	}
	if !allowAt(held, 40*second, 1) {
		t.Error("there is room again, and the held limiter does not see it")
	}
}

func TestSharedRuleIsOneBucket(t *testing.T) {
	rule := weighted(10)
	rule.Key, rule.Shared, rule.MaxKeys = "batch:*", true, 3
	g := NewGroup(snapshot(t, rule), 1)
	got := 0
	for i := range 30 {
		got += take(g.For(fmt.Sprint("batch:", i)), 0, 1)
	}
	if got != 10 {
		t.Errorf("%d keys got %d of a shared burst of 10", 30, got)
	}
	b := g.Manual().Report(second)
	if len(b) != 1 || b[0].Usage.Len() != 1 || b[0].Usage.Keys[0] != "batch:*" || b[0].Usage.Allowed[0] != 10 || b[0].Usage.Rejected[0] != 20 {
		t.Errorf("a shared rule reports %+v", b)
	}
}

// The bucket of a shared rule has the rule's pattern for its key. That finds the
// rule also if the pattern does not match itself, or if another one does.
func TestASharedRuleIsFoundByItsPattern(t *testing.T) {
	for name, patterns := range map[string][]string{
		"it does not match itself":          {"db:[0-9][0-9]"},
		"an earlier shared rule matches it": {"db:?", "db:*"},
	} {
		var rules []dynamicconfig.Rule
		for _, p := range patterns {
			r := alone(10, 10)
			r.Key, r.Shared = p, true
			rules = append(rules, r)
		}
		g := NewGroup(snapshot(t, rules...), 1)
		if got := take(g.For("db:10"), 0, 8) + take(g.For("db:20"), 0, 8); got != 10 {
			t.Errorf("%s: two keys got %d of a shared burst of 10", name, got)
		}
	}
	// An exact rule for the pattern's text goes before: then each key has its own bucket.
	r, exactly := alone(10, 10), alone(3, 3)
	r.Key, r.Shared, exactly.Key = "a*", true, `a\*`
	g := NewGroup(snapshot(t, r, exactly), 1)
	if a, b := take(g.For("ab"), 0, 20), take(g.For("a*"), 0, 20); a != 10 || b != 3 {
		t.Errorf("%d of 10, and %d of 3", a, b)
	}
}

func TestAllIsAllOrNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		few, many := weighted(3), weighted(100)
		few.Key, many.Key = "few", "many"
		g := NewGroup(snapshot(t, few, many), 1)
		for range 5 {
			AllowAll(t.Context(), Cost{g.For("many"), 10}, Cost{g.For("few"), 1})
		}
		if s := only(t, g, stage.Now(), "many"); s.Allowed != 30 || !near(s.Level.Tokens, 70) {
			t.Errorf("%+v: want 3 × 10 taken and 2 × 10 returned", s)
		}
		if s := only(t, g, stage.Now(), "few"); s.Allowed != 3 || s.Rejected != 2 {
			t.Errorf("%+v", s)
		}
		_, refused := TakeAll(t.Context(), 0, Cost{g.For("many"), 10}, Cost{g.For("few"), 1})
		if refused == nil || refused.Reason != Limited || refused.Cost != (Cost{g.For("few"), 1}) {
			t.Errorf("refused by %+v", refused)
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	rule := weighted(1000)
	rule.Key, rule.IdleAfter = "*", time.Nanosecond
	g := NewGroup(snapshot(t, rule), 2)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	background := func(f func()) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	background(func() {
		for _, b := range g.Manual().Report(stage.Now()) {
			n := b.Usage.Len()
			g.Manual().Apply(stage.Now(), b, nil, &usage.Grants{
				Weight: make([]float64, n), Burst: make([]float64, n), Used: make([]float64, n), Lease: make([]time.Duration, n),
			})
		}
	})
	fast, slow := snapshot(t, rule), snapshot(t, dynamicconfig.Rule{Key: "*", Limit: 10, Shared: true})
	background(func() { g.Configure(slow); g.Configure(fast) })
	background(func() { g.SetHosts(1); g.SetHosts(3); g.Inspect("3") })
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			held := g.For("held")
			for i := range 3000 {
				g.For(fmt.Sprint(i % 50)).Allow()
				held.Allow()
				held.Tokens()
			}
		})
	}
	users.Wait()
	close(stop)
	wg.Wait()
}

func TestTheHotPathAllocatesNothing(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(1e9)), 1)
	g.For("k").Allow()
	if n := testing.AllocsPerRun(1000, func() { g.For("k").Allow() }); n != 0 {
		t.Errorf("For(key).Allow(): %v allocations", n)
	}
}

func TestDropRatioLetsItsPartPass(t *testing.T) {
	rule := weighted(100)
	rule.IdleAfter = time.Hour
	g := NewGroup(snapshot(t, rule), 4, WithSeed(1))
	k := g.For("k")
	allowAt(k, 0, 1)
	answer(t, g, second, 0.3, 100, usage.FloorDrop, time.Minute)
	if got := take(k, second, 10_000); got < 2_800 || got > 3_200 {
		t.Errorf("%d of 10000 passed, want about 0.3 of them", got)
	}
	reserved := 0
	for range 1000 {
		if reserveAt(k, second, 5, 0).OK() {
			reserved++
		}
	}
	if reserved < 230 || reserved > 370 {
		t.Errorf("%d of 1000 reservations passed, want about 0.3 of them", reserved)
	}
	g.Manual().Report(2 * stage.Instant(time.Minute))
	if s := only(t, g, 2*stage.Instant(time.Minute), "k"); !s.Fallback || s.Level.Limit != 25 {
		t.Errorf("after the lease: %+v", s)
	}
}

// An owner lends so many tokens, also to a host that its fallback did not limit.
func TestAGrantAfterAnOpenFallbackHasItsTokens(t *testing.T) {
	for _, algorithm := range []string{"elastic", Auto} {
		r := dynamicconfig.Rule{Key: "k", Limit: 10, Burst: 100, Algorithm: algorithm, Fallback: dynamicconfig.FallbackOpen}
		e := newElsewhere(stage.Now)
		e.set(errors.New("away"))
		g, now := NewGroup(snapshot(t, r), 4, WithRemote(Auto, e)), stage.Now()
		k := g.For("k")
		for range 2 {
			if n := take(k, now, 500); n != 500 {
				t.Fatalf("%s: %d allowed by a fallback that is open", algorithm, n)
			}
			now += second
			batches := g.Manual().Report(now)
			take(k, now, 1) // after the report
			for _, b := range batches {
				grants := grantOf(0.1, 100, time.Second)
				grants.Tokens = []float64{4}
				if err := g.Manual().Apply(now, b, nil, grants); err != nil {
					t.Fatal(err)
				}
			}
			want := 3
			if algorithm == Auto { // what the fallback let through is charged at the owner
				want = 4
			}
			if n := take(k, now, 500); n != want {
				t.Errorf("%s: %d tokens, and 4 were lent, of which 1 was used", algorithm, n)
			}
			now += 60 * second
			g.Manual().Report(now) // the lease has ended
		}
	}
}

// The events that a host with little load let through during an outage are paid for long before a
// grant is back.
func TestAGrantAfterALongFallbackIsFull(t *testing.T) {
	g, now := NewGroup(snapshot(t, weighted(100)), 1), stage.Now()
	k := g.For("k")
	allowAt(k, now, 1)
	now += second
	answer(t, g, now, 1, 0, usage.FloorNone, time.Second)
	for range 100 {
		now += second
		g.Manual().Report(now) // nobody answers
		allowAt(k, now, 2)
	}
	now += second
	answer(t, g, now, 1, 0, usage.FloorNone, time.Minute)
	if got := take(k, now, 200); got < 98 { // the last two count as of the last report
		t.Errorf("%d tokens of a grant of 100", got)
	}
}

// A key that is used again just when it has become idle counts from then on. Else whoever adds up what hosts count,
// as an operator's top keys do, counts the events before again at each pause.
func TestAKeyCountsFromWhenItCameToLife(t *testing.T) {
	for _, algorithm := range []string{"even", "exact", "request-weighted"} {
		now := second
		rule := dynamicconfig.Rule{Key: "k", Limit: 100, Burst: 20, Algorithm: algorithm, IdleAfter: 3 * time.Second}
		g := NewGroup(snapshot(t, rule), 1, WithRemote("exact", newElsewhere(func() stage.Instant { return now })), WithBackground(func(f func()) { f() }))
		for range 10 {
			if _, used := g.InspectAt(now.Time(), "k"); used {
				t.Fatalf("%s: the key is in use", algorithm)
			}
			allowAt(g.For("k"), now, 1)
			allowAt(g.For("k"), now, 20)
			for range 3 {
				now += second
				g.Manual().Report(now) // which nobody answers
				if st, used := g.InspectAt(now.Time(), "k"); used && (st.Shares[0].Allowed != 1 || st.Shares[0].Rejected != 20) {
					t.Fatalf("%s: %+v, want 1 allowed and 20 rejected", algorithm, st.Shares[0])
				}
			}
			if algorithm == "request-weighted" { // it is forgotten, and not idle
				now += second
				g.Manual().Report(now)
			}
		}
	}
}
