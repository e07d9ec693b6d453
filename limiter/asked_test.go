// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"slices"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// beyond is ShareStatus.Asked.
type beyond = struct {
	Asks, Granted, Withheld int64
	Lent                    int64
	Pause                   time.Duration
}

// Inspect and the metrics of the rule say what a host asked for beyond its grant.
func TestAsksAreVisible(t *testing.T) {
	var now stage.Instant
	scope, e := tally.NewTestScope("", nil), newElsewhere(func() stage.Instant { return now })
	rule := autoRule(1)
	rule.Burst = 100
	g := NewGroup(snapshot(t, rule), 10, WithRemote(Auto, e), WithSeed(1), WithScope(scope), WithBackground(func(f func()) { f() }))
	k := g.For("k")
	take(k, now, 1) // without a grant: these are in allowed only
	granted(t, g, 1, g.Manual().Report(1), sure, 0)
	if s := only(t, g, 1, "k"); s.Asked != (beyond{}) {
		t.Errorf("before it asks, %+v", s.Asked)
	}
	now = 2 * second / 1000 // later than at once
	e.lends = 2
	take(k, now, 1)
	e.lends = 0
	take(k, now, 2+53) // two of the loan, an ask ahead, and as many asks as there may be at once less two
	now += second/7 + 2
	take(k, now, 1)
	e.answer = &stage.Outcome{RetryAfter: 200 * time.Millisecond}
	take(k, now, 1)
	e.answer = nil
	take(k, 2*now, 4) // none: the refusal stands
	s := only(t, g, 2*now, "k").Asked
	if s.Pause <= 0 || s.Pause > 200*time.Millisecond {
		t.Errorf("it asks again after %v", s.Pause)
	}
	if s.Pause = 0; s != (beyond{Asks: 57, Granted: 55, Lent: 2}) {
		t.Errorf("%+v", s)
	}
	take(k, second/2, 10) // more than fill in
	s = only(t, g, second/2, "k").Asked
	if s.Withheld == 0 || s.Asks+s.Withheld != 57+10 || s.Pause != 0 {
		t.Errorf("%+v", s)
	}
	now = second
	for range 2 { // a report counts what is new
		g.Manual().Report(now)
		now += second
	}
	for name, want := range map[string]int64{"asks": s.Asks, "asks_granted": s.Granted, "asks_withheld": s.Withheld, "tokens_lent": s.Lent} {
		if got := scope.Snapshot().Counters()["limiter."+name+"+rule=k"]; got == nil || got.Value() != want {
			t.Errorf("%s: %v, want %d", name, got, want)
		}
	}
	if got := scope.Snapshot().Counters()["limiter.asks+rule="]; got != nil {
		t.Errorf("a rule that asks nobody has a counter")
	}
}

// Each rule has a gauge of its keys that use their fallback, until the rule goes.
func TestKeysInFallbackAreCountedByRule(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	rule := func(key string) dynamicconfig.Rule { r := weighted(100); r.Key = key; return r }
	g := NewGroup(snapshot(t, rule("a*"), rule("b")), 2, WithScope(scope))
	fallen := func(when string, want map[string]float64) {
		t.Helper()
		for key, n := range want {
			if got := scope.Snapshot().Gauges()["limiter.fallbacks+rule="+key]; got == nil || got.Value() != n {
				t.Errorf("%s: %s: %v, want %v", when, key, got, n)
			}
		}
	}
	report := func(now stage.Instant) []*batch {
		for _, key := range []string{"a1", "a2", "b"} {
			take(g.For(key), now-1, 1)
		}
		return g.Manual().Report(now)
	}
	batches := report(second)
	fallen("without a grant", map[string]float64{"a*": 2, "b": 1})
	rows := []int{slices.Index(batches[0].Usage.Keys, "a1"), slices.Index(batches[0].Usage.Keys, "b")}
	grants := &usage.Grants{Weight: []float64{0.5, 0.5}, Burst: []float64{50, 50}, Used: []float64{1, 1}, Lease: []time.Duration{3 * time.Second / 2, time.Minute}}
	if err := g.Manual().Apply(second, batches[0], rows, grants); err != nil {
		t.Fatal(err)
	}
	report(2 * second)
	fallen("with grants", map[string]float64{"a*": 1, "b": 0})
	report(3 * second)
	fallen("after the lease", map[string]float64{"a*": 2, "b": 0})
	g.Manual().Configure(3*second, snapshot(t, rule("b")))
	report(4 * second)
	fallen("without the rule", map[string]float64{"a*": 0, "b": 0})
	moves := rule("b")
	moves.Migration = &dynamicconfig.Migration{From: "request-weighted", To: "elastic", Mode: dynamicconfig.ModeOldShadowNew}
	g.Manual().Configure(4*second, snapshot(t, moves))
	report(90 * second)
	fallen("both sides of a migration without grants", map[string]float64{"b": 1})
}

// How long callers are told to wait is in a histogram, also if they only reserve.
func TestWaitsAreMeasured(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	rule := alone(1, 2)
	rule.MaxWait = time.Minute
	k := NewGroup(snapshot(t, rule), 1, WithScope(scope)).For("k")
	for range 4 { // two at once, after a second, and after two
		if v := reserveAt(k, 0, 1, stage.Forever); !v.OK() {
			t.Errorf("%+v", v)
		}
	}
	if v := reserveAt(k, 0, 1, time.Second); v.OK() {
		t.Errorf("%+v", v)
	}
	var n int64
	for bound, count := range scope.Snapshot().Histograms()["limiter.wait_seconds+"].Durations() {
		if n += count; count > 0 && (bound < time.Second || bound > 3*time.Second) {
			t.Errorf("%d waits of %v", count, bound)
		}
	}
	if n != 2 {
		t.Errorf("%d waits", n)
	}
}
