// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// These are the defects of issue 13 that concern a Group or its Limiters.
// defects_shadow_test.go has those of a migration.

// Defect 1.
func TestACancelledWaitUnderMaxDebtTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := alone(1, 10)
		r.MaxDebt, r.MaxCost = 1000*time.Second, 100
		k := NewGroup(snapshot(t, r), 1).For("k")
		k.AllowN(time.Now(), 20) // leaves a debt of 10
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := k.WaitN(ctx, 50); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if got := k.Tokens(); !near(got, -9) {
			t.Errorf("%v tokens, want -9: the cancelled wait kept some of its 50", got)
		}
		reserved := k.ReserveN(time.Now(), 50)
		reserved.Cancel()
		if got := k.Tokens(); !near(got, -9) {
			t.Errorf("%v tokens after a reservation that was cancelled at once, want -9", got)
		}
		reserved = k.ReserveN(time.Now(), 50) // may act in 9 s
		time.Sleep(10 * time.Second)
		reserved.Cancel()
		if got := k.Tokens(); !near(got, -49) {
			t.Errorf("%v tokens after a reservation that was cancelled too late, want -49", got)
		}
	})
}

// Defect 2.
func TestAllWaysToDecideSayTheSame(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for n := 1; n <= 3; n++ {
			r := alone(1, 2)
			r.Key, r.Shared = "batch:*", shared
			k := NewGroup(snapshot(t, r), 1).For("batch:a")
			charge(keyOf(k), 0, 2)
			want := decideAt(k, 0, n, 0)
			if want.By != "even" || (want.RetryAfter != time.Duration(n)*time.Second) != (n > 2) {
				t.Errorf("shared %v, %d: decided %+v", shared, n, want)
			}
			if got := takeAt(k, 0, n, 0).Decision(); got != want {
				t.Errorf("shared %v, %d: Take says %+v, Decide %+v", shared, n, got, want)
			}
			v, _ := k.Stage().Take(t.Context(), stage.Request{N: int64(n)})
			if v.Reason != want.Reason || v.RetryAfter != want.RetryAfter || v.By != stage.ByAlgorithm {
				t.Errorf("shared %v, %d: Stage says %+v, Decide %+v", shared, n, v, want)
			}
			if allowAt(k, 0, n) || reserveAt(k, 0, n, 0).OK() {
				t.Errorf("shared %v, %d: Allow or Reserve allow it", shared, n)
			}
		}
	}
}

// Defect 3.
func TestASoftEventIsSettledForNothing(t *testing.T) {
	for _, shared := range []bool{false, true} {
		r := alone(1, 10)
		r.Key, r.Shared, r.Enforce = "batch:*", shared, dynamicconfig.Soft
		k := NewGroup(snapshot(t, r), 1).For("batch:a")
		allowAt(k, 0, 10)
		for _, actual := range []int64{0, 3, 5, 8} {
			e := takeAt(k, 0, 5, 0)
			e.settle(0, actual)
			if got := keyOf(k).Level(0).Tokens; !near(got, 0) || e.Decision().Reason != Soft {
				t.Errorf("shared %v: settled with %d: %v tokens, %v", shared, actual, got, e.Decision().Reason)
			}
		}
	}
}

// Defect 4.
func TestLowerMaxKeysGiveASharedBucketNoSecondBurst(t *testing.T) {
	rule := func(most int) dynamicconfig.Rule {
		return dynamicconfig.Rule{Key: "batch:*", Shared: true, Limit: 0.001, Burst: 10, Algorithm: Even, MaxKeys: most, IdleAfter: time.Hour}
	}
	g := NewGroup(snapshot(t, rule(10)), 1)
	for _, key := range []string{"batch:a", "batch:b", "batch:c"} {
		allowAt(g.For(key), 0, 0)
	}
	for s := range stage.Instant(6) {
		g.Manual().Report(s * second)
	}
	if !keyOf(g.For("batch:*")).Idle() {
		t.Fatal("the common key is not asleep")
	}
	if got := take(g.For("batch:a"), 7*second, 100); got != 10 {
		t.Fatal(got)
	}
	g.Manual().Report(8 * second)
	for _, most := range []int{2, 1} {
		g.Manual().Configure(9*second, snapshot(t, rule(most)))
		for _, key := range []string{"batch:a", "batch:b", "batch:c", "batch:new"} {
			if more := take(g.For(key), 9*second, 100); more > 0 {
				t.Errorf("max_keys %d: %s got %d more tokens", most, key, more)
			}
		}
	}
}

// Defect 5.
func TestSetHostsReachesAKeyThatIsBeingAdmitted(t *testing.T) {
	r := dynamicconfig.Rule{Key: "k", Limit: 100, IdleAfter: time.Hour, Migration: &dynamicconfig.Migration{From: Even, To: "request-weighted", Mode: dynamicconfig.ModeOldShadowNew}}
	var g *Group
	var setting sync.WaitGroup
	slow := stage.Migrator{Stages: func(_ stage.Instant, old, _ stage.Stage, _ dynamicconfig.Mode, _ func(func()) bool) stage.Migration {
		setting.Go(func() { g.SetHosts(10) })
		for g.keys().Hosts() != 10 { // while the key is being admitted
			runtime.Gosched()
		}
		return onlyOld{old}
	}}
	g = NewGroup(snapshot(t, r), 1, WithMigration(slow))
	k := g.For("k")
	allowAt(k, 0, 0)
	setting.Wait()
	if got := keyOf(k).Level(0).Limit; got != 10 {
		t.Errorf("limit %v on one of 10 hosts, want 10", got)
	}
}

// Defects 5 and 13, with the race detector.
func TestChangesReachAllKeysThatAreBeingAdmitted(t *testing.T) {
	s := func(limit int) *dynamicconfig.Snapshot {
		r := alone(rate.Limit(limit), 100)
		r.Key = "*"
		s, err := dynamicconfig.Config{
			Properties: dynamicconfig.Properties{UpdateInterval: time.Duration(limit) * time.Second, UpdateTimeout: time.Second},
			Rules:      []dynamicconfig.Rule{r},
		}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	configs := []*dynamicconfig.Snapshot{s(3), s(5), s(7)}
	for round := range 20 {
		g := NewGroup(s(1), 1)
		const users, keys = 4, 100
		var all sync.WaitGroup
		for u := range users {
			all.Go(func() {
				for i := range keys {
					g.For(fmt.Sprint(u, i)).Allow()
				}
			})
		}
		for i, c := range configs {
			all.Go(func() { g.Configure(c) })
			all.Go(func() { g.SetHosts(2 + i) })
		}
		all.Wait()
		want := rate.Limit(g.Interval().Seconds()) / rate.Limit(g.keys().Hosts())
		for u := range users {
			for i := range keys {
				if got := g.For(fmt.Sprint(u, i)).Limit(); !near(float64(got), float64(want)) {
					t.Fatalf("round %d: an interval of %v and %d hosts, and a key has %v/s", round, g.Interval(), g.keys().Hosts(), got)
				}
			}
		}
		if live := g.keys().Counted("0 0"); live != users*keys {
			t.Fatalf("round %d: %d keys are counted of %d", round, live, users*keys)
		}
	}
}

// Defect 9.
func TestAReservationFromAnUnlimitedBucketGivesNothingBack(t *testing.T) {
	r := weighted(100)
	r.Fallback = dynamicconfig.FallbackOpen
	for name, undo := range map[string]func(taken *taken){
		"settle": func(taken *taken) { taken.settle(second, 0) },
		"less":   func(taken *taken) { taken.settle(second, 400) },
		"cancel": func(taken *taken) { taken.acts = second; taken.cancel(second) },
	} {
		g := NewGroup(snapshot(t, r), 1)
		k := g.For("k")
		res := reserveAt(k, 0, 1000, 0)
		answer(t, g, second, 0.5, 100, usage.FloorNone, time.Minute)
		take(k, second, 1000) // the bucket is dry
		before := keyOf(k).Level(second).Tokens
		undo(res)
		if got := keyOf(k).Level(second).Tokens; got != before {
			t.Errorf("%s: %v tokens, %v before", name, got, before)
		}
	}
}

// Defect 10.
func TestTheLastReportOfAKeyIsSentUntilItIsAnswered(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 1)
	take(g.For("k"), 0, 10)
	other := weighted(100)
	other.Key = "other"
	g.Manual().Configure(second, snapshot(t, other)) // no rule matches k any more
	reported := func(now stage.Instant) (n int64) {
		for _, b := range g.Manual().Report(now) {
			for _, allowed := range b.Usage.Allowed {
				n += allowed
			}
			if now < 60*second {
				g.Manual().Fail(now, b, nil)
			} else if err := g.Manual().Apply(now, b, nil, grantOf(0.5, 10, time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	for _, at := range []stage.Instant{2, 22, 42, 62, 82} {
		want := int64(10)
		if at > 62 {
			want = 0 // it was answered
		}
		if got := reported(at * second); got != want {
			t.Errorf("at %d s %d are reported, want %d", at, got, want)
		}
	}
}

// Defect 11.
func TestAnOlderTimestampLosesNoTokens(t *testing.T) {
	for _, back := range []time.Duration{time.Nanosecond, time.Millisecond, 2 * time.Second, time.Hour} {
		ours, theirs := NewBucket(10, 10), rate.NewLimiter(10, 10)
		key := NewGroup(snapshot(t, alone(10, 10)), 1).For("k")
		now := time.Now()
		for i := range 12 {
			at := now.Add(-min(time.Duration(i), 1) * back)
			if a, b, c := ours.AllowN(at, 1), key.AllowN(at, 1), theirs.AllowN(at, 1); a != c || b != c {
				t.Errorf("%v back: event %d: a Bucket says %v, a Group %v, and x/time/rate %v", back, i, a, b, c)
			}
		}
	}
}

// Defect 12.
func TestAKeyIsRemovedWhenItIs(t *testing.T) {
	r := alone(100, 100)
	r.Key, r.IdleAfter = "*", time.Hour
	for name, remove := range map[string]func(g *Group) stage.Instant{
		"config": func(g *Group) stage.Instant {
			g.Manual().Configure(7*second, snapshot(t, r))
			return 7 * second
		},
		"idle": func(g *Group) stage.Instant {
			g.Manual().Report(7200 * second)
			return 7200 * second
		},
	} {
		var e ear
		g := NewGroup(snapshot(t, r), 1, WithListener(e.hear))
		allowAt(g.For("k"), 0, 0)
		for s := range stage.Instant(6) {
			g.Manual().Report(s * second)
		}
		if !keyOf(g.For("k")).Idle() {
			t.Fatal("it does not sleep")
		}
		want := remove(g)
		drain(g)
		last := e.heard[len(e.heard)-1]
		if last.Kind != EventRemoved || last.At != want {
			t.Errorf("%s: %v at %v, want removed at %v", name, last.Kind, time.Duration(last.At), time.Duration(want))
		}
	}
}

// Defect 13. An attacker can make up keys, so those beyond max_keys must be
// cheap.
func TestAKeyBeyondMaxKeysCostsNoLockAndNoAllocation(t *testing.T) {
	r := alone(10, 10)
	r.Key, r.MaxKeys = "*", 1
	g := NewGroup(snapshot(t, r), 1)
	allowAt(g.For("first"), 0, 1)
	k := g.For("second")
	if d := k.Decide(t.Context(), 1, 0); d.Reason != TooManyKeys {
		t.Fatalf("%+v", d)
	}
	if n := testing.AllocsPerRun(100, func() { k.Allow(); k.Decide(context.Background(), 2, 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Defect 14.
func TestTheErrorSaysThatTheHostHasAPartOfTheBurst(t *testing.T) {
	k := NewGroup(snapshot(t, alone(100, 100)), 3).For("k")
	err := k.WaitN(t.Context(), 40)
	if !errors.Is(err, ErrNever) || !strings.Contains(err.Error(), "this host's part of the burst, 33:") {
		t.Errorf("%v", err)
	}
	if r := k.ReserveN(time.Now(), 40); r.OK() || r.Delay() != time.Duration(math.MaxInt64) {
		t.Errorf("a reservation of more than the host's part: %v, %v", r.OK(), r.Delay())
	}
}
