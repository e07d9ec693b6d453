// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// overridden are rules and overrides; each override ends an hour after noon.
func overridden(t testing.TB, rules []dynamicconfig.Rule, overrides ...dynamicconfig.Override) (s *dynamicconfig.Snapshot, noon time.Time) {
	t.Helper()
	noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i := range overrides {
		o := &overrides[i]
		o.All, o.Until, o.Author, o.Reason = o.Key == "", noon.Add(time.Hour), "ada", "a test"
	}
	s, err := dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: rules, Overrides: overrides, Unmatched: dynamicconfig.UnmatchedDeny,
	}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s, noon
}

func TestABypassLetsEverythingThroughAndTakesNothing(t *testing.T) {
	rules := []dynamicconfig.Rule{
		{Key: "a:*", Limit: 0.01, Burst: 10, Algorithm: Even, MaxKeys: 1, IdleAfter: time.Hour, MaxWait: dynamicconfig.None},
		{Key: "b", Limit: 0.01, Burst: 10, Algorithm: Even, IdleAfter: time.Hour},
	}
	s, noon := overridden(t, rules, dynamicconfig.Override{Key: "a:*", Bypass: true})
	scope := tally.NewTestScope("", nil)
	g := NewGroup(s, 1, WithScope(scope))
	if take(g.For("a:1"), 0, 6) != 6 || take(g.For("b"), 0, 6) != 6 || allowAt(g.For("a:2"), 0, 1) {
		t.Fatal("the limits are others")
	}
	g.Manual().Configure(second, s.At(noon))
	if got := take(g.For("a:1"), second, 100) + take(g.For("a:2"), second, 100); got != 200 {
		t.Errorf("%d of 200 events are let through", got)
	}
	d := decideAt(g.For("a:1"), second, 1000, 0)
	if want := (Decision{OK: true, Reason: Bypassed, Limit: rate.Inf, Burst: math.Inf(1), Left: math.Inf(1)}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	if d := decideAt(g.For("a:1"), second, -1, 0); d.OK {
		t.Error("a negative cost is let through")
	}
	e := takeAt(g.For("a:1"), second, 5, 0)
	e.Settle(50)
	charge(keyOf(g.For("a:1")), second, 20)
	if r := reserveAt(g.For("a:1"), second, 1000, time.Hour); !r.OK() || r.Wait != 0 {
		t.Errorf("a reservation waits: %+v", r.Verdict)
	}
	if take(g.For("b"), second, 10) != 4 {
		t.Error("another rule notices")
	}
	g.Manual().Report(2 * second)
	if got := counter(scope, "limiter.bypassed+rule=a:*"); got != 200+1000+50+1000 {
		t.Errorf("%d tokens count as bypassed", got)
	}
	if got := counter(scope, "limiter.allowed+rule=a:*"); got != 6 {
		t.Errorf("%d tokens count as allowed", got)
	}
	g.Counts(func(c Count) {
		if c.Key == "a:1" && (c.Allowed != 6+100+1000+50+1000 || c.Rejected != 0) {
			t.Errorf("the key has %d tokens allowed, %d rejected", c.Allowed, c.Rejected)
		}
	})
	// After the end, the bucket is what it was.
	g.Manual().Configure(101*second, s.At(noon.Add(time.Hour)))
	if got := take(g.For("a:1"), 101*second, 20); got != 5 {
		t.Errorf("%d tokens are there, want the 4 of before and one that came in", got)
	}
	if allowAt(g.For("a:2"), 101*second, 1) {
		t.Error("max_keys does not count again")
	}
}

// Those who wait for tokens go on as soon as nothing limits their key any more. A change
// under which the key is limited leaves them waiting.
func TestABypassReleasesThoseWhoWait(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k*", Limit: 1, Burst: 1, Algorithm: Even}
	shared, disabled := rule, rule
	shared.Shared = true
	disabled.Algorithm, disabled.Migration = "", &dynamicconfig.Migration{From: Even, To: "request-weighted", Mode: dynamicconfig.ModeDisabled}
	limited, noon := overridden(t, []dynamicconfig.Rule{rule}, dynamicconfig.Override{Key: "k*", Bypass: true})
	one, _ := overridden(t, []dynamicconfig.Rule{shared}, dynamicconfig.Override{Key: "k1", Bypass: true})
	denied, _ := overridden(t, nil)
	for name, tt := range map[string]struct {
		next *dynamicconfig.Snapshot
		open bool
	}{
		"bypass":               {limited.At(noon), true},
		"bypass of one of all": {one.At(noon), true},
		"bypass of another":    {one, false},
		"disabled":             {snapshot(t, disabled), true},
		"no rule":              {snapshot(t), true},
		"no rule, denied":      {denied, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := NewGroup(limited, 1)
				k := g.For("k1")
				took, start := make(chan time.Duration, 10), time.Now()
				for range cap(took) {
					go func() {
						if err := k.Wait(t.Context()); err != nil {
							t.Error(err)
						}
						took <- time.Since(start)
					}()
				}
				time.Sleep(time.Second / 2) // one had a token
				g.Configure(limited)
				synctest.Wait()
				if len(took) != 1 {
					t.Errorf("%d go on although the limit is as it was", len(took)-1)
				}
				g.Configure(tt.next)
				synctest.Wait()
				if open := len(took) == cap(took); open != tt.open {
					t.Errorf("%d of %d go on", len(took), cap(took))
				}
				for range cap(took) {
					<-took
				}
			})
		})
	}
}

func TestAReservationHasNoDelayDuringABypass(t *testing.T) {
	s, noon := overridden(t, []dynamicconfig.Rule{alone(1, 1)}, dynamicconfig.Override{Key: "k", Bypass: true})
	g := NewGroup(s, 1)
	g.For("k").Allow()
	r := g.For("k").Reserve()
	if d := r.Delay(); d <= 0 {
		t.Fatal(d)
	}
	g.Configure(s.At(noon))
	if d := r.Delay(); d != 0 {
		t.Errorf("a delay of %v during a bypass", d)
	}
	g.Configure(s)
	if r.Delay() <= 0 {
		t.Error("no delay after it")
	}
}

// An event that a bypass lets through counts with its cost after Settle. An event that is cancelled counts nowhere. During the
// bypass, the limiter says that nothing is limited.
func TestABypassCountsWhatHappened(t *testing.T) {
	for _, algorithm := range []string{Even, "elastic"} {
		s, noon := overridden(t, []dynamicconfig.Rule{
			{Key: "a", Limit: 10, Burst: 10, Algorithm: algorithm, IdleAfter: time.Hour}, {Key: "b", Limit: 0.001, Burst: 1, Algorithm: Even, IdleAfter: time.Hour},
		}, dynamicconfig.Override{Key: "a", Bypass: true})
		scope := tally.NewTestScope("", nil)
		g := NewGroup(s.At(noon), 1, WithScope(scope))
		counted := func(what string, want int64) {
			t.Helper()
			g.Manual().Report(stage.Now())
			if st, _ := g.Inspect("a"); st.Shares[0].Allowed != want || counter(scope, "limiter.bypassed+rule=a") != want {
				t.Errorf("%s, %s: %d are allowed, and the metric has %d, want %d", algorithm, what, st.Shares[0].Allowed, counter(scope, "limiter.bypassed+rule=a"), want)
			}
		}
		a := g.For("a")
		if a.Limit() != rate.Inf || a.Burst() != math.MaxInt || !math.IsInf(a.Tokens(), 1) {
			t.Errorf("%s: %v/s, a burst of %d, %v tokens", algorithm, a.Limit(), a.Burst(), a.Tokens())
		}
		a.AllowN(time.Now(), 40)
		AllowAll(t.Context(), Cost{a, 100}, Cost{g.For("b"), 2}) // b refuses
		counted("one of two limits refuses", 40)
		more, less := a.Take(t.Context(), 5, 0), a.Take(t.Context(), 5, 0)
		more.Settle(15)
		less.Settle(1)
		counted("settled", 56)
		late := a.Take(t.Context(), 30, 0)
		counted("taken", 86)
		late.Cancel()
		r := a.ReserveN(time.Now().Add(time.Hour), 30)
		r.Cancel()
		r.Cancel()
		around := FromStage(a.Stage())
		around.Take(t.Context(), 30, 0).Settle(0)
		around.ReserveN(time.Now().Add(time.Hour), 30).Cancel()
		a.AllowN(time.Now(), 40)
		counted("cancelled after a report", 96)
	}
}

// A report that is made during a bypass has the events that the bucket rejected before it.
func TestABypassHidesNoRejections(t *testing.T) {
	s, noon := overridden(t, []dynamicconfig.Rule{alone(0.01, 10)}, dynamicconfig.Override{Key: "k", Bypass: true})
	scope := tally.NewTestScope("", nil)
	g := NewGroup(s, 1, WithScope(scope))
	take(g.For("k"), 0, 30)
	g.Manual().Configure(second, s.At(noon))
	take(g.For("k"), second, 100)
	g.Manual().Report(2 * second)
	if got := counter(scope, "limiter.rejected+reason=limited,rule=k"); got != 20 {
		t.Errorf("%d tokens count as rejected, want 20", got)
	}
}

func counter(scope tally.TestScope, name string) int64 {
	if c := scope.Snapshot().Counters()[name]; c != nil {
		return c.Value()
	}
	return 0
}

func TestABypassOfSlotsCountsWhatIsHeld(t *testing.T) {
	s, noon := overridden(t, []dynamicconfig.Rule{inFlightRule(3)}, dynamicconfig.Override{Key: "k", Bypass: true})
	g := NewGroup(s.At(noon), 1)
	k := g.For("k")
	var releases []func()
	for range 10 {
		release, err := k.Acquire(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	g.Configure(s)
	for i, release := range releases {
		if _, ok := k.TryAcquire(1); ok {
			t.Errorf("a slot is free while %d of 3 are held", 10-i)
		}
		release()
		if i == 7 {
			break
		}
	}
	if _, ok := k.TryAcquire(1); !ok {
		t.Error("no slot is free while 2 of 3 are held")
	}
}

func TestABypassOfAllLetsKeysWithoutARuleThrough(t *testing.T) {
	s, noon := overridden(t, []dynamicconfig.Rule{alone(0.01, 1)}, dynamicconfig.Override{Bypass: true})
	g := NewGroup(s, 1)
	if allowAt(g.For("other"), 0, 1) || take(g.For("k"), 0, 5) != 1 {
		t.Fatal("the limits are others")
	}
	g.Manual().Configure(second, s.At(noon))
	if take(g.For("other"), second, 5) != 5 || take(g.For("k"), second, 5) != 5 {
		t.Error("not all is let through")
	}
	g.Manual().Configure(2*second, s)
	if allowAt(g.For("other"), 2*second, 1) || take(g.For("k"), 2*second, 5) != 0 {
		t.Error("it does not end")
	}
}

// One key of a shared rule is bypassed, and the others go on with their bucket.
func TestABypassOfOneKeyLeavesItsSharedBucketAlone(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "s:*", Limit: 0.01, Burst: 10, Algorithm: Even, Shared: true, IdleAfter: time.Hour}
	s, noon := overridden(t, []dynamicconfig.Rule{rule}, dynamicconfig.Override{Key: "s:1", Bypass: true})
	g := NewGroup(s, 1)
	got := take(g.For("s:1"), 0, 3) + take(g.For("s:2"), 0, 3)
	g.Manual().Configure(second, s.At(noon))
	if n := take(g.For("s:1"), second, 50); n != 50 {
		t.Errorf("%d of 50", n)
	}
	got += take(g.For("s:2"), second, 3)
	g.Manual().Configure(2*second, s)
	if got += take(g.For("s:1"), 2*second, 50); got != 10 {
		t.Errorf("the shared bucket gave %d of 10", got)
	}
}

// Whatever overrides begin and end, a bucket gives no more than its burst and what the
// highest limit fills in, and keys that are not overridden notice nothing.
func TestOverridesRefillNoBucket(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]string{Even, "elastic", "request-weighted"}).Draw(t, "algorithm")
		rules := []dynamicconfig.Rule{
			{Key: "a:*", Limit: 1, Burst: 20, Algorithm: algorithm, IdleAfter: time.Hour},
			{Key: "b", Limit: 1, Burst: 20, Algorithm: algorithm, IdleAfter: time.Hour},
		}
		if rapid.Bool().Draw(t, "migrates") {
			for i := range rules {
				rules[i].Algorithm, rules[i].Migration = "", &dynamicconfig.Migration{From: Even, To: "elastic", Mode: dynamicconfig.ModeOldShadowNew}
			}
		}
		g := NewGroup(snapshot(tb, rules...), 1)
		same := NewGroup(snapshot(tb, rules...), 1)                         // never overridden
		now, filled, got := stage.Instant(0), 0.0, take(g.For("a:1"), 0, 1) // which is made under its own limit
		factor := 1.0
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			passed := rapid.IntRange(0, 10).Draw(t, "seconds")
			now += stage.Instant(passed) * second
			filled += factor * float64(passed)
			var overrides []dynamicconfig.Override
			bypass := false
			factor = 1
			switch rapid.IntRange(0, 4).Draw(t, "override") {
			case 1:
				factor = 2
				overrides = append(overrides, dynamicconfig.Override{Key: "a:*", Factor: 2})
			case 2:
				factor = 0.5
				overrides = append(overrides, dynamicconfig.Override{Key: "a:1", Limit: 0.5})
			case 3:
				bypass = true
				overrides = append(overrides, dynamicconfig.Override{Key: "a:1", Bypass: true})
			case 4:
				factor = 0
				overrides = append(overrides, dynamicconfig.Override{Key: "a:1", Limit: 0})
			}
			s, noon := overridden(tb, rules, overrides...)
			g.Manual().Configure(now, s.At(noon))
			n := rapid.IntRange(0, 40).Draw(t, "events")
			took := take(g.For("a:1"), now, n)
			if bypass {
				if took != n {
					t.Fatalf("step %d: %d of %d pass a bypass", step, took, n)
				}
			} else {
				got += took
			}
			if float64(got) > 20+filled+1e-6 {
				t.Fatalf("step %d: %d events, of a burst of 20 and %v that came in", step, got, filled)
			}
			if a, b := take(g.For("b"), now, n), take(same.For("b"), now, n); a != b {
				t.Fatalf("step %d: a key that is not overridden got %d, and %d without overrides", step, a, b)
			}
		}
	})
}

func TestADecisionSaysThatItIsBypassed(t *testing.T) {
	s, noon := overridden(t, []dynamicconfig.Rule{inFlightRule(3), {Key: "r", Limit: 1, Algorithm: Auto}}, dynamicconfig.Override{Bypass: true})
	g := NewGroup(s.At(noon), 3)
	rule := g.For("r").Rule()
	if d := g.For("r").Decide(t.Context(), 7, 0); d.Reason != Bypassed || fmt.Sprint(d.Reason) != "bypassed" || !rule.Bypassed() || rule.Override.Author != "ada" {
		t.Errorf("%+v under %+v", d, rule)
	}
}

// The mode disabled lets everything pass, also the events of keys for which there is no room.
func TestADisabledRuleRefusesNoKey(t *testing.T) {
	for name, r := range map[string]dynamicconfig.Rule{
		"a rate": {Migration: &dynamicconfig.Migration{From: Even, To: "request-weighted"}},
		"slots":  {Migration: &dynamicconfig.Migration{From: Even, To: "fair-share"}, InFlight: true},
	} {
		t.Run(name, func(t *testing.T) {
			r.Key, r.Limit, r.MaxKeys = "k:*", 1, 1
			r.Migration.Mode = dynamicconfig.ModeDisabled
			g := NewGroup(snapshot(t, r), 1)
			for _, key := range []string{"k:a", "k:b", "k:b"} {
				if _, ok := g.For(key).TryAcquire(1); !ok {
					t.Errorf("%s is refused", key)
				}
				if _, err := g.For(key).Acquire(t.Context(), 1); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
			r.Migration = &dynamicconfig.Migration{From: r.Migration.From, To: r.Migration.To, Mode: dynamicconfig.ModeOld}
			g.Configure(snapshot(t, r))
			if d := g.For("k:b").Decide(t.Context(), 1, 0); d.Reason != TooManyKeys {
				t.Errorf("max_keys does not count again: %+v", d)
			}
		})
	}
}

// Under a bypass, TryAcquire and Acquire give as many slots, and no more than any limit may have.
func TestSlotsUnderABypassAreAsManyForAllCallers(t *testing.T) {
	rules := []dynamicconfig.Rule{{Key: "k", Limit: 2, InFlight: true, Algorithm: Even}}
	s, noon := overridden(t, rules, dynamicconfig.Override{Key: "k", Bypass: true})
	l := NewGroup(s.At(noon), 1).For("k")
	for slots, want := range map[int64]bool{3: true, 1 << 40: true, 1<<40 + 1: false} {
		n := int(slots)
		if int64(n) != slots {
			continue // a 32-bit platform has no such int
		}
		release, ok := l.TryAcquire(n)
		release()
		releaseToo, err := l.Acquire(t.Context(), n)
		releaseToo()
		if ok != want || (err == nil) != want || err != nil && !errors.Is(err, ErrNever) {
			t.Errorf("%d slots: TryAcquire %t, Acquire %v", n, ok, err)
		}
	}
}
