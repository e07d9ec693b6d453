// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

func counters(scope tally.TestScope) map[string]int64 {
	all := map[string]int64{}
	for _, c := range scope.Snapshot().Counters() {
		if c.Value() != 0 {
			all[c.Name()+fmt.Sprint(c.Tags())] = c.Value()
		}
	}
	return all
}

func TestMetricsOfAutoKeys(t *testing.T) {
	var now stage.Instant
	e := newElsewhere(func() stage.Instant { return now })
	scope := tally.NewTestScope("", nil)
	g := NewGroup(snapshot(t, autoRule(1)), 10, WithRemote(Auto, e), WithScope(scope), WithBackground(func(f func()) { f() }))
	if got := take(g.For("k"), now, 5); got != 5 || e.asked != 5 {
		t.Fatal(got, e.asked)
	}
	now = second
	granted(t, g, now, g.Manual().Report(now), sure, 0)
	t.Logf("5 admitted by the owner: %v", counters(scope))
	for name, n := range counters(scope) {
		if strings.Contains(name, "rejected") && n > 0 {
			t.Errorf("%s is %d, and nothing was rejected", name, n)
		}
	}
}

func TestMetricsOfCanceled(t *testing.T) {
	var now stage.Instant
	e := newElsewhere(func() stage.Instant { return now })
	scope := tally.NewTestScope("", nil)
	g := NewGroup(snapshot(t, exact(5)), 1, WithRemote("exact", e), WithScope(scope), WithBackground(func(f func()) { f() }))
	k := g.For("k")
	if got := take(k, now, 8); got != 5 { // 3 limited
		t.Fatal(got)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	e.set(context.Canceled)
	for range 3 {
		if v, _, _ := decide(gone, keyOf(k), now, 1, 0, stage.Final); v.Reason != Canceled {
			t.Fatal(v)
		}
	}
	now = second
	g.Manual().Report(now)
	var limited int64
	for name, n := range counters(scope) {
		if strings.Contains(name, "limited") {
			limited += n
		}
	}
	if limited != 3 {
		t.Errorf("limited: %d, want 3: %v", limited, counters(scope))
	}
}

// A caller that leaves while the owner is asked for what a grant lacks hides no
// later refusal.
func TestMetricsOfCanceledUnderAGrant(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	e := newElsewhere(func() stage.Instant { return 2 })
	g := NewGroup(snapshot(t, autoRule(1)), 10, WithRemote(Auto, e), WithSeed(1), WithScope(scope), WithBackground(func(f func()) { f() }))
	k := g.For("k")
	take(k, 0, 1)
	granted(t, g, 1, g.Manual().Report(1), sure, 0)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if v, _, _ := decide(gone, keyOf(k), 2, 1, 0, stage.Final); v.Reason != Canceled {
			t.Fatal(v)
		}
	}
	e.answer = &stage.Outcome{RetryAfter: time.Minute}
	if got := take(k, 2, 3); got != 0 {
		t.Fatalf("%d are allowed", got)
	}
	g.Manual().Report(second)
	if got := counted(scope); got["limiter.rejected/k/limited"] != 3 || got["limiter.rejected/k/canceled"] != 3 {
		t.Errorf("counted %v", got)
	}
}

func TestOwedSurvivesAChangeOfAlgorithm(t *testing.T) {
	for _, to := range []string{"even", "elastic", "mig", "gone"} {
		for _, from := range []string{"exact", Auto} {
			var now stage.Instant
			e := newElsewhere(func() stage.Instant { return now })
			r := exact(10)
			r.Limit, r.Algorithm, r.IdleAfter = 1, from, time.Minute
			g := NewGroup(snapshot(t, r), 10, WithRemote(from, e), WithBackground(func(f func()) { f() }))
			k := g.For("k")
			take(k, now, 1) // the bucket is there
			e.set(errors.New("away"))
			got := take(k, now, 4)
			if got == 0 {
				t.Fatal("nothing is let through")
			}
			r2 := r
			switch to {
			case "mig":
				r2.Algorithm, r2.Migration = "", &dynamicconfig.Migration{From: "even", To: "elastic", Mode: dynamicconfig.ModeOld}
			case "gone":
				r2.Key = "other"
			default:
				r2.Algorithm = to
			}
			g.Manual().Configure(now, snapshot(t, r2))
			e.set(nil)
			before := e.asked
			for range 60 {
				now += second
				g.Manual().Report(now)
			}
			if e.asked == before {
				t.Errorf("%s → %s: the remote is back, and is never told of %d", from, to, got)
			}
		}
	}
}

func TestFlushAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElsewhere(stage.Now)
		r := exact(10)
		r.Key = "*"
		g := NewGroup(snapshot(t, r), 1, WithRemote("exact", e))
		for i := range 1000 {
			g.For(fmt.Sprint("k", i)).Allow()
		}
		e.set(errors.New("away"))
		for i := range 1000 {
			g.For(fmt.Sprint("k", i)).Charge(3)
		}
		g.keys().Join()
		e.set(nil)
		e.delay = 5 * time.Millisecond
		time.Sleep(time.Minute)
		g.keys().Flush()
		lacks := 0
		for i := range 1000 {
			if got := e.buckets[fmt.Sprint("k", i)].Tokens(stage.Now()); got > 9 {
				lacks++
			}
		}
		if lacks > 0 {
			t.Errorf("%d of 1000 keys were not charged when the host left", lacks)
		}
	})
}

func TestKeysOfADeadRemoteAreForgotten(t *testing.T) {
	var now stage.Instant
	e := newElsewhere(func() stage.Instant { return now })
	e.set(errors.New("away for good"))
	r := exact(10)
	r.Key, r.IdleAfter, r.MaxKeys = "*", 10*time.Second, 100
	g := NewGroup(snapshot(t, r), 1, WithRemote("exact", e), WithBackground(func(f func()) { f() }))
	for i := range 100 {
		decide(t.Context(), keyOf(g.For(fmt.Sprint("k", i))), now, 1, 0, stage.Final)
	}
	for range 24 * 60 {
		now += 60 * second
		g.Manual().Report(now)
	}
	if d := decideAt(g.For("new"), now, 1, 0); d.Reason == TooManyKeys {
		t.Errorf("a day later, keys that nobody used keep others out: %v", d.Reason)
	}
}

func TestLogOfFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var now stage.Instant
		e := newElsewhere(func() stage.Instant { return now })
		var log bytes.Buffer
		r := exact(10)
		r.Key, r.IdleAfter = "*", 10*time.Second
		g := NewGroup(snapshot(t, r), 1, WithRemote("exact", e), WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithBackground(func(f func()) { f() }))
		e.set(errors.New("away"))
		decideAt(g.For("a"), now, 1, 0) // a fails, and is never used again
		e.set(nil)
		now += 60 * second
		for range 100 {
			now += second
			g.Manual().Report(now)
			decideAt(g.For("b"), now, 1, 0)
		}
		log.Reset()
		time.Sleep(2 * time.Second) // the log has a line in a second of the clock
		e.set(errors.New("away again"))
		decideAt(g.For("b"), now, 1, 0)
		if !strings.Contains(log.String(), "does not answer") {
			t.Errorf("the second outage is not logged: %q", log.String())
		}
	})
}

func TestFallbackEventOfAnIdleKey(t *testing.T) {
	var now stage.Instant
	e := newElsewhere(func() stage.Instant { return now })
	r := exact(10)
	r.IdleAfter = time.Hour
	g := NewGroup(snapshot(t, r), 1, WithRemote("exact", e), WithBackground(func(f func()) { f() }))
	e.set(errors.New("away"))
	decideAt(g.For("k"), now, 1, 0)
	e.set(nil)
	now += 11 * second
	g.Manual().SetHosts(now, 2)
	g.Manual().Report(now)
	if st, _ := g.Inspect("k"); len(st.Shares) == 1 && st.Shares[0].Fallback {
		s := st.Shares[0]
		t.Errorf("the remote answered a charge %v ago, and the key shows %+v", time.Minute, s)
	}
}

func TestASettlementAfterTheStageWasReplaced(t *testing.T) {
	var now stage.Instant
	e := newElsewhere(func() stage.Instant { return now })
	r := exact(10)
	r.Limit = 0.001
	g := NewGroup(snapshot(t, r), 1, WithRemote("exact", e), WithBackground(func(f func()) { f() }))
	k := g.For("k")
	held := takeAt(k, now, 5, 0)
	r2 := r
	r2.Algorithm = "even"
	g.Manual().Configure(now, snapshot(t, r2))
	e.set(errors.New("away"))
	held.taken.settle(now, 0)
	e.set(nil)
	for range 60 {
		now += second
		g.Manual().Report(now)
	}
	if got := e.buckets["k"].Tokens(now); got < 9 {
		t.Errorf("%v tokens are left at the remote, want 10", got)
	}
}
