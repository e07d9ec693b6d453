// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/limiter/stage"
)

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
	if s := only(t, g, 1, "k"); s.Asked != (AskStatus{}) {
		t.Errorf("before it asks, %+v", s.Asked)
	}
	e.lends = 2
	take(k, 1, 1)
	e.lends = 0
	take(k, 1, 2+54) // two of the loan, and as many asks as there may be at once less one
	now = second/7 + 2
	take(k, now, 1)
	e.answer = &stage.Outcome{RetryAfter: 200 * time.Millisecond}
	take(k, now, 1)
	e.answer = nil
	take(k, 2*now, 4) // none: the refusal stands
	s := only(t, g, 2*now, "k").Asked
	if s.Pause <= 0 || s.Pause > 200*time.Millisecond {
		t.Errorf("it asks again after %v", s.Pause)
	}
	if s.Pause = 0; s != (AskStatus{Asks: 57, Granted: 56, Lent: 2}) {
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
