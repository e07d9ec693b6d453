// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// hold takes single slots at now, up to n.
func hold(t testing.TB, k *Limiter, now stage.Instant, n int) (holds []stage.Hold) {
	t.Helper()
	for range n {
		if h, ok := tryAcquireAt(k, now, 1); ok {
			holds = append(holds, h)
		}
	}
	return holds
}

func tryAcquireAt(l *Limiter, now stage.Instant, n int64) (stage.Hold, bool) {
	h, err := keyOf(l).Current(now).Slots.TryAcquire(now, n)
	return h, err == nil
}

// one is the only row that g reports at now.
func one(t testing.TB, g *Group, now stage.Instant) (*batch, usage.Report) {
	t.Helper()
	all := g.Manual().Report(now)
	if len(all) != 1 || all[0].Usage.Len() != 1 {
		t.Fatalf("%d batches", len(all))
	}
	if err := all[0].Usage.Check(); err != nil {
		t.Fatal(err)
	}
	return all[0], all[0].Usage
}

// A caller that tries to take more slots than the whole limit has never gets them. So its host does
// not want them, and other hosts keep theirs.
func TestMoreSlotsThanTheLimitAreNoDemand(t *testing.T) {
	g := NewGroup(snapshot(t, inFlightRule(10)), 2)
	for i, tt := range []struct {
		n    int64
		want float64
	}{{11, 0}, {1e6, 0}, {10, 10}} {
		if _, ok := tryAcquireAt(g.For("k"), 0, tt.n); ok {
			t.Fatalf("%d slots of 5", tt.n)
		}
		if _, u := one(t, g, stage.Instant(i+1)*second); u.Wants[0] != tt.want {
			t.Errorf("%d slots were refused, of a limit of 10: the host wants %v, and not %v", tt.n, u.Wants[0], tt.want)
		}
	}
}

func TestSlotsOfAHostWithoutAGrant(t *testing.T) {
	for _, tt := range []struct {
		limit    rate.Limit
		hosts    int
		fallback dynamicconfig.Fallback
		safe     rate.Limit
		want     float64
	}{
		{100, 1, dynamicconfig.FallbackEven, 0, 100},
		{100, 3, dynamicconfig.FallbackEven, 0, 33},
		{100, 100, dynamicconfig.FallbackEven, 0, 1},
		{100, 250, dynamicconfig.FallbackEven, 0, 1}, // 250 at most, where 0 would let nothing happen
		{0, 250, dynamicconfig.FallbackEven, 0, 0},
		{100, 3, dynamicconfig.FallbackClosed, 0, 0},
		{100, 3, dynamicconfig.FallbackSafe, 7, 7},
		{100, 3, dynamicconfig.FallbackOpen, 0, math.Inf(1)},
	} {
		rule := inFlightRule(tt.limit)
		rule.Fallback, rule.SafeCapacity = tt.fallback, tt.safe
		g := NewGroup(snapshot(t, rule), tt.hosts)
		k := g.For("k")
		level := keyOf(k).Level(0)
		if level.Limit != rate.Limit(min(tt.want, float64(rate.Inf))) || level.Burst != tt.want || level.Tokens != tt.want {
			t.Errorf("%v slots on %d hosts, %v: %+v, want %v", tt.limit, tt.hosts, tt.fallback, level, tt.want)
		}
		if got := len(hold(t, k, 0, 500)); float64(got) != min(tt.want, 500) {
			t.Errorf("%v slots on %d hosts, %v: %d are held, want %v", tt.limit, tt.hosts, tt.fallback, got, tt.want)
		}
	}
}

func TestOnlyAcquireTakesSlots(t *testing.T) {
	g := NewGroup(snapshot(t, inFlightRule(5)), 1)
	k := g.For("k")
	if allowAt(k, 0, 1) || reserveAt(k, 0, 1, time.Hour).OK() || k.Allow() || k.Take(t.Context(), 1, 0).OK() {
		t.Error("a slot was taken that nobody gives back")
	}
	if err := k.Wait(t.Context()); !errors.Is(err, ErrInFlight) {
		t.Error(err)
	}
	charge(keyOf(k), 0, 3)
	k.Stage().Cap(0, 0)
	if got := len(hold(t, k, 0, 9)); got != 5 {
		t.Errorf("%d slots of 5", got)
	}
	// A number of slots that makes no sense holds nothing, and does not count as usage.
	for _, n := range []int{-1, math.MinInt, math.MaxInt} {
		if _, ok := k.TryAcquire(n); ok {
			t.Errorf("%d slots", n)
		}
		if _, err := k.Acquire(t.Context(), n); err == nil {
			t.Errorf("%d slots", n)
		}
	}
	if release, ok := k.TryAcquire(0); !ok {
		t.Error("no slots are always free")
	} else {
		release()
	}
	if _, err := k.Acquire(t.Context(), 6); !errors.Is(err, ErrNever) || strings.Count(err.Error(), "acquire") != 1 {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Acquire(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, u := one(t, g, second); u.Allowed[0] != 5 {
		t.Errorf("%+v", u)
	}
}

func TestOnARateAcquireIsWaitAndReleaseDoesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rule := weighted(10)
		rule.Burst = 1
		for name, l := range map[string]interface {
			Acquire(ctx context.Context, n int, priority ...Priority) (release func(), err error)
			TryAcquire(n int) (release func(), ok bool)
		}{"limiter": NewGroup(snapshot(t, rule), 1).For("k"), "bucket": NewBucket(10, 1)} {
			began := time.Now()
			for range 3 {
				release, err := l.Acquire(t.Context(), 1, Priority(3))
				if err != nil {
					t.Fatal(err)
				}
				release()
			}
			if waited := time.Since(began).Round(time.Millisecond); waited != 200*time.Millisecond {
				t.Errorf("%s: three took %v", name, waited)
			}
			release, ok := l.TryAcquire(1)
			release()
			if ok {
				t.Errorf("%s: there is no token", name)
			}
			if _, err := l.Acquire(t.Context(), 2); !errors.Is(err, ErrNever) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestSlotsAreReported(t *testing.T) {
	rule := inFlightRule(100)
	rule.IdleAfter = time.Hour
	g := NewGroup(snapshot(t, rule), 10)
	k := g.For("k")
	holds := hold(t, k, 0, 12)
	if len(holds) != 10 {
		t.Fatal(len(holds))
	}
	b, u := one(t, g, second)
	if u.Allowed[0] != 10 || u.Rejected[0] != 2 || u.Weight[0] != 0.1 {
		t.Errorf("%+v", u)
	}
	if u.Wants == nil || u.Wants[0] != 11 { // two calls that met ten held
		t.Errorf("wants %v", u.Wants)
	}
	grants := &usage.Grants{Weight: []float64{0.12}, Burst: []float64{0}, Used: []float64{90}, Lease: []time.Duration{10 * time.Second}}
	if err := g.Manual().Apply(second, b, nil, grants); err != nil {
		t.Fatal(err)
	}
	if l := keyOf(k).Level(second); l.Limit != 12 || l.Tokens != 2 {
		t.Errorf("%+v", l)
	}
	if st := only(t, g, second, "k"); st.Held != 10 || st.Waiting != 0 || st.Fallback {
		t.Errorf("%+v", st)
	}
	// The host reports that it has its grant, or the slots that are held if they are more.
	if _, u := one(t, g, 2*second); u.Weight[0] != 0.12 {
		t.Errorf("%+v", u)
	}
	for _, h := range holds {
		h.Release()
	}
	// The lease ends. They were in use since the last report, and are not now.
	if _, u := one(t, g, 12*second); u.Weight[0] != 0 || u.Wants[0] != 10 || u.Allowed[0]+u.Rejected[0] != 0 {
		t.Errorf("%+v", u)
	}
	if _, u := one(t, g, 30*second); u.Weight[0] != 0 || u.Wants[0] != 0 || u.Allowed[0]+u.Rejected[0] != 0 {
		t.Errorf("%+v", u)
	}
	if l := keyOf(k).Level(30 * second); l.Limit != 10 {
		t.Errorf("after the lease: %+v", l)
	}
}

func TestACutWaitsForHolders(t *testing.T) {
	g := NewGroup(snapshot(t, inFlightRule(10)), 1)
	k := g.For("k")
	holds := hold(t, k, 0, 8)
	answer(t, g, second, 0.3, 10, usage.FloorNone, 10*time.Second)
	for i, h := range holds {
		if l := keyOf(k).Level(second); l.Limit != 3 || l.Tokens != float64(3-(8-i)) {
			t.Errorf("%d are held: %+v", 8-i, l)
		}
		if h2, ok := tryAcquireAt(k, second, 1); ok != (8-i < 3) {
			t.Errorf("%d are held: another is %v", 8-i, ok)
		} else {
			h2.Release()
		}
		if _, u := one(t, g, 2*second+stage.Instant(i)); !near(u.Weight[0], max(0.3, float64(8-i)/10)) {
			t.Errorf("%d are held: the weight is %v", 8-i, u.Weight[0])
		}
		h.Release()
	}
}

func TestWhoWaitsForSlotsAsksEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rule := inFlightRule(10)
		g := NewGroup(snapshot(t, rule), 10, WithSeed(1))
		var asked, inVain atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.Run(ctx, updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
				asked.Add(1)
				weight := 0.5
				if inVain.Add(-1) >= 0 {
					weight = 0.1
				}
				done(usage.Part{Rows: []int{0}}, &usage.Grants{
					Weight: []float64{weight}, Burst: []float64{0}, Used: []float64{0}, Lease: []time.Duration{time.Minute},
				}, nil)
			}))
		}()
		time.Sleep(50 * time.Millisecond)
		k := g.For("k")
		began := time.Now()
		release, err := k.Acquire(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > 20*time.Millisecond {
			t.Errorf("there are slots elsewhere, and they took %v", waited)
		}
		release()

		// Others release what it waits for.
		inVain.Store(4)
		time.Sleep(2 * time.Second)
		began = time.Now()
		if release, err = k.Acquire(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > 800*time.Millisecond { // and a regular report comes each second
			t.Errorf("it took %v until it was asked again", waited)
		}
		release()

		// When asking is in vain, it is done less and less.
		inVain.Store(1e6)
		time.Sleep(5 * time.Second)
		asked.Store(0)
		short, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		if _, err := k.Acquire(short, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if n := asked.Load(); n < 20 || n > 26 {
			t.Errorf("asked %d times in 20 intervals", n)
		}
		cancel()
		<-done
	})
}

func TestSlotsThatAreHeldOutliveTheirRule(t *testing.T) {
	both := func(limit rate.Limit) *dynamicconfig.Snapshot {
		rule := inFlightRule(limit)
		rule.Key, rule.MaxKeys = "*", 1
		return snapshot(t, rule)
	}
	g := NewGroup(both(4), 1)
	k := g.For("k")
	holds := hold(t, k, 0, 3)
	g.Manual().Configure(second, snapshot(t, weighted(4)))
	if got := take(k, second, 9); got != 4 {
		t.Errorf("under a rate: %d of 4", got)
	}
	found := false
	for _, b := range g.Manual().Report(2 * second) {
		found = found || b.Usage.Algorithm == "fair-share" && b.Usage.Weight[0] == 0.75 && b.Usage.Wants[0] >= 3
	}
	if !found {
		t.Error("nobody hears of slots that are held")
	}
	g.Manual().Configure(3*second, both(4))
	keyOf(k).Level(3 * second)
	g.Manual().Report(4 * second)
	if got := len(hold(t, k, 4*second, 9)); got != 1 {
		t.Errorf("the rule is back, 3 of 4 slots are held, and %d more are given", got)
	}
	for _, h := range holds {
		h.Release()
		h.Release()
	}
	if got := len(hold(t, k, 4*second, 9)); got != 3 {
		t.Errorf("3 slots came back, and %d are given", got)
	}
}

func TestAWaiterFollowsTheRules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		deny, err := dynamicconfig.Config{Unmatched: dynamicconfig.UnmatchedDeny}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		more := inFlightRule(3)
		more.Algorithm = Even
		for name, tt := range map[string]struct {
			next *dynamicconfig.Snapshot
			want error
		}{
			"a rate":       {snapshot(t, weighted(1)), nil},
			"more slots":   {snapshot(t, more), nil},
			"no such rule": {deny, ErrUnmatched},
		} {
			g := NewGroup(snapshot(t, inFlightRule(2)), 1)
			k := g.For("k")
			hold(t, k, stage.Now(), 2)
			c := make(chan error, 1)
			go func() {
				_, err := k.Acquire(t.Context(), 1)
				c <- err
			}()
			synctest.Wait()
			g.Manual().Configure(stage.Now(), tt.next)
			synctest.Wait()
			select {
			case err := <-c:
				if !errors.Is(err, tt.want) {
					t.Errorf("%s: %v", name, err)
				}
			default:
				t.Errorf("%s: it waits", name)
			}
		}
	})
}

func TestAKeyWithSlotsInFlightIsNotForgotten(t *testing.T) {
	rule := inFlightRule(2)
	rule.IdleAfter = 5 * time.Second
	g := NewGroup(snapshot(t, rule), 1)
	k := g.For("k")
	h := hold(t, k, 0, 1)[0]
	for now := second; now < 20*second; now += second {
		g.Manual().Report(now)
	}
	if st, ok := g.Manual().Inspect(20*second, "k"); !ok || st.Shares[0].Held != 1 {
		t.Errorf("%+v, %v", st, ok)
	}
	h.Release()
	for now := 20 * second; now < 30*second; now += second {
		g.Manual().Report(now)
	}
	if _, ok := g.Manual().Inspect(30*second, "k"); ok {
		t.Error("it is kept for nothing")
	}
	h.Release()
	if got := len(hold(t, k, 30*second, 9)); got != 2 {
		t.Errorf("%d slots of 2", got)
	}
}

func TestAKeyHasOneLimiter(t *testing.T) {
	for _, rule := range []dynamicconfig.Rule{weighted(5), inFlightRule(5)} {
		rule.IdleAfter = 5 * time.Second
		g := NewGroup(snapshot(t, rule), 1)
		a, b := g.For("k"), g.For("k")
		use := func(now stage.Instant, k *Limiter, n int) (got int) {
			if rule.InFlight {
				return len(hold(t, k, now, n))
			}
			return take(k, now, n)
		}
		if got := use(0, a, 3) + use(0, b, 9) + use(0, g.For("k"), 9); got != 5 {
			t.Errorf("in flight %v: %d of 5", rule.InFlight, got)
		}
		if again := g.For("k"); g.For("k") != again {
			t.Error("two limiters of a key in use")
		}
	}
	// Forgetting a key while it is used, from all sides.
	rule := inFlightRule(3)
	rule.IdleAfter = time.Second
	g := NewGroup(snapshot(t, rule), 1)
	var held atomic.Int64
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 3000 {
				h, ok := tryAcquireAt(g.For("k"), 0, 1)
				if !ok {
					continue
				}
				if held.Add(1) > 3 {
					t.Error("too many slots")
				}
				held.Add(-1)
				h.Release()
			}
		})
	}
	stop := make(chan struct{})
	reporter := make(chan struct{})
	go func() {
		defer close(reporter)
		for now := second; ; now += second {
			select {
			case <-stop:
				return
			default:
				g.Manual().Report(now)
			}
		}
	}()
	users.Wait()
	close(stop)
	<-reporter
}

// Hosts that hold to their grants hold no more together than the limit,
// whatever they do and whenever they are cut.
func TestHostsTogetherHoldAtMostTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 30).Draw(t, "limit")
		rule := inFlightRule(rate.Limit(limit))
		rule.Fallback = dynamicconfig.FallbackClosed
		s, err := dynamicconfig.Config{
			Properties: dynamicconfig.Properties{UpdateInterval: time.Second},
			Rules:      []dynamicconfig.Rule{rule},
		}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		const hosts = 3
		var groups [hosts]*Group
		var holds [hosts][]stage.Hold
		var has [hosts]float64 // as the owner knows it
		for i := range groups {
			groups[i] = NewGroup(s, hosts)
			keyOf(groups[i].For("k")).Level(0)
		}
		now := stage.Instant(0)
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				i := rapid.IntRange(0, hosts-1).Draw(t, "host")
				n := rapid.IntRange(1, 4).Draw(t, "n")
				if h, ok := tryAcquireAt(groups[i].For("k"), now, int64(n)); ok {
					holds[i] = append(holds[i], h)
				}
			},
			"release": func(t *rapid.T) {
				i := rapid.IntRange(0, hosts-1).Draw(t, "host")
				if len(holds[i]) > 0 {
					holds[i][0].Release()
					holds[i] = holds[i][1:]
				}
			},
			"round": func(t *rapid.T) {
				i := rapid.IntRange(0, hosts-1).Draw(t, "host")
				now += second
				for _, b := range groups[i].Manual().Report(now) {
					// The owner takes what the host has to be its, and gives
					// of what is not the others'.
					has[i] = b.Usage.Weight[0]
					free := 1.0
					for _, w := range has {
						free -= w
					}
					target := rapid.Float64Range(0, 1).Draw(t, "target")
					grant := min(target, has[i]+max(free, 0))
					has[i] = max(grant, has[i])
					err := groups[i].Manual().Apply(now, b, nil, &usage.Grants{
						Weight: []float64{min(grant, 1)}, Burst: []float64{0}, Used: []float64{0}, Lease: []time.Duration{time.Hour},
					})
					if err != nil {
						t.Fatal(err)
					}
				}
			},
			"": func(t *rapid.T) {
				var sum int64
				for i := range groups {
					if st, ok := groups[i].Manual().Inspect(now, "k"); ok {
						sum += st.Shares[0].Held
					}
				}
				if sum > int64(limit) {
					t.Fatalf("%d slots of %d are held", sum, limit)
				}
			},
		})
	})
}

func TestSlotsAndRatesInOneBatch(t *testing.T) {
	slots, events, stated := inFlightRule(10), weighted(10), weighted(10)
	slots.Key, slots.Algorithm, events.Key, stated.Key = "slots", "own", "events", "stated"
	events.Algorithm, stated.Algorithm = "own", "own"
	for _, eager := range []bool{false, true} {
		var options []Option
		if eager {
			options = append(options, WithAlgorithm("own", dynamicconfig.Traits{Early: true}))
		}
		for range 8 { // keys are reported in the order in which they came
			g := NewGroup(snapshot(t, slots, events, stated), 1, options...)
			keys := []string{"slots", "events", "stated"}
			for i := range keys {
				j := i + rand.IntN(len(keys)-i)
				keys[i], keys[j] = keys[j], keys[i]
			}
			for _, key := range keys {
				if key == "slots" {
					hold(t, g.For(key), 0, 3)
				} else {
					take(g.For(key), 0, 2)
					allowAt(g.For(key), 0, 2) // so that costs are told too
				}
			}
			g.For("stated").SetDemand(77)
			all := g.Manual().Report(max(stage.Now(), 0) + 2*second)
			if len(all) != 1 {
				t.Fatalf("%d batches", len(all))
			}
			u := &all[0].Usage
			if err := u.Check(); err != nil || u.Len() != 3 {
				t.Fatal(err, u.Len())
			}
			wants := func(key string) float64 { return u.Wants[slices.Index(u.Keys, key)] }
			if wants("slots") != 3 || wants("stated") != 77 || !(wants("events") > 0 && wants("events") < 5) {
				t.Errorf("eager %v, order %v: %v want %v", eager, keys, u.Keys, u.Wants)
			}
		}
	}
}

func TestSlotsAreIntroducedToNewOwners(t *testing.T) {
	g := NewGroup(snapshot(t, inFlightRule(10)), 1, WithSeed(1))
	k := g.For("k")
	keyOf(k).Level(0)
	soon := func(now stage.Instant) bool {
		return len(g.Manual().Early(now+stage.Instant(400*time.Millisecond))) > 0
	}
	answer(t, g, second, 0.5, 0, usage.FloorNone, 0) // an owner that is not ready
	if !soon(second) {
		t.Error("an owner that was not ready is not asked again")
	}
	answer(t, g, 4*second, 0.5, 0, usage.FloorNone, time.Minute)
	if g.Manual().Introduce(4 * second); soon(4 * second) {
		t.Error("there is nothing to tell")
	}
	hold(t, k, 5*second, 1)
	if g.Manual().Introduce(5 * second); !soon(5 * second) {
		t.Error("a new owner does not learn what is held")
	}
}
