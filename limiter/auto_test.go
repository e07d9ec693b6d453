// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

func autoRule(limit rate.Limit) dynamicconfig.Rule {
	return dynamicconfig.Rule{Key: "k", Limit: limit, Burst: 20, Algorithm: Auto, IdleAfter: time.Hour}
}

// autoGroup is a host of ten, whose clock stands at *now for who it asks.
func autoGroup(t testing.TB, rule dynamicconfig.Rule, now *stage.Instant) (*Group, *elsewhere) {
	t.Helper()
	e := newElsewhere(func() stage.Instant { return *now })
	return NewGroup(snapshot(t, rule), 10, WithRemote(Auto, e), WithSeed(1), WithBackground(func(f func()) { f() })), e
}

// nothing is the answer that the owner decides each event.
func nothing(t testing.TB, g *Group, now stage.Instant, batches []*Batch) (said []usage.Report) {
	t.Helper()
	for _, b := range batches {
		grants := &usage.Grants{Weight: []float64{0}, Burst: []float64{0}, Used: []float64{0}, Lease: []time.Duration{time.Minute}, Tokens: []float64{0}}
		if err := g.Manual().Apply(now, b, nil, grants); err != nil {
			t.Fatal(err)
		}
		said = append(said, b.Usage)
	}
	return said
}

func by(t testing.TB, g *Group, now stage.Instant) string {
	t.Helper()
	return decideAt(g.For("k"), now, 1, 0).By
}

func TestAutoBeginsByWhatAnEvenShareIsWorth(t *testing.T) {
	for limit, want := range map[rate.Limit]string{19: "exact", 20: "even"} { // of ten hosts, each second
		var now stage.Instant
		g, e := autoGroup(t, autoRule(limit), &now)
		if got := by(t, g, now); got != want || e.asked > 0 != (want == "exact") {
			t.Errorf("of %v/s: decided by %s, %d asked", limit, got, e.asked)
		}
		if due := g.Manual().NextEarly(); limit == 19 && due > second/100 {
			t.Errorf("who asks first introduces itself at %v", time.Duration(due))
		}
		g.Manual().SetHosts(now, 1)
		if got := by(t, g, now); got != "even" {
			t.Errorf("one host, of %v/s: decided by %s", limit, got)
		}
	}
}

// A grant of nothing has every event asked for, and what was held is gone; a
// grant has the host decide, without asking.
func TestAutoFollowsItsOwner(t *testing.T) {
	var now stage.Instant
	g, e := autoGroup(t, autoRule(1), &now)
	k := g.For("k")
	if got := take(k, now, 5); got != 5 || e.asked != 5 {
		t.Fatalf("%d taken, %d asked", got, e.asked)
	}
	now = second
	said := nothing(t, g, now, g.Manual().Report(now))
	if len(said) != 1 || said[0].Allowed[0] != 0 || said[0].Rejected[0] != 5 || said[0].Weight[0] != 0 || said[0].Wants[0] <= 0 {
		t.Errorf("said %+v", said)
	}
	take(k, now, 2)
	if s := only(t, g, now, "k"); !s.Asks || s.Fallback || s.Allowed != 7 || s.Rejected != 0 || e.asked != 7 {
		t.Errorf("asking, it shows %+v", s)
	}

	now = 2 * second
	granted(t, g, now, g.Manual().Report(now), 0.5, 8)
	if k.of().Plain() == nil {
		t.Error("with a grant, the share does not decide alone")
	}
	if got := take(k, now, 8); got != 8 || e.asked != 7 {
		t.Errorf("of 8 tokens %d were taken, %d asked", got, e.asked)
	}
	if s := only(t, g, now, "k"); s.Asks || s.Fallback || s.Allowed != 15 || s.Rejected != 0 {
		t.Errorf("granted, it shows %+v", s)
	}
	if d := decideAt(k, now, 1, 0); d.By != "elastic" || d.Burst != 18 {
		t.Errorf("decided %+v", d)
	}

	now = 10 * second // five tokens have come in
	batches := g.Manual().Report(now)
	g.Manual().Early(now) // and nothing else is urgent
	said = nothing(t, g, now, batches)
	if said[0].Allowed[0] != 8 || said[0].Weight[0] != 0.5 {
		t.Errorf("of a grant it said %+v", said)
	}
	if by(t, g, now) != "exact" || k.of().Plain() != nil {
		t.Error("after a grant of nothing nobody is asked")
	}
	// The owner waits to hear that nothing is held any more.
	early := g.Manual().Early(now + second/50)
	if len(early) != 1 || early[0].Usage.Weight[0] != 0 {
		t.Fatalf("soon it says %+v", early)
	}
	nothing(t, g, now+second/50, early)
	now += second
	if more := g.Manual().Early(now); len(more) > 1 {
		t.Errorf("and again %+v", more[1].Usage)
	}
	e.set(errors.New("away"))
	if d := decideAt(k, now, 1, 0); d.By != "even" || d.Burst != 2 || d.Left > 2 {
		t.Errorf("decided %+v", d)
	}
}

// What the fallback lets through is owed, and reported as wanted only.
func TestWhatAutoFallsBackForIsChargedOnce(t *testing.T) {
	var now stage.Instant
	g, e := autoGroup(t, autoRule(1), &now)
	k := g.For("k")
	take(k, now, 1)
	nothing(t, g, 1, g.Manual().Report(1))
	e.set(errors.New("away"))
	now = second
	if got := take(k, now, 5); got != 2 { // of an even share of 20
		t.Errorf("the fallback lets %d through", got)
	}
	if s := only(t, g, now, "k"); !s.Fallback || !s.Asks || s.Allowed != 3 || s.Rejected != 3 {
		t.Errorf("in fallback, it shows %+v", s)
	}
	reserveAt(k, now, 1, time.Hour).settle(now, 0) // it did not happen
	said := nothing(t, g, now, g.Manual().Report(now))
	if said[0].Allowed[0] != 0 || said[0].Rejected[0] != 5 {
		t.Errorf("said %+v", said)
	}
	e.set(nil)
	reserveAt(k, now, 1, 0).settle(now, 0)
	charge(k.of(), now, 3)
	if got := e.buckets["k"].Tokens(now); !near(got, 20-2-3) { // it was full again
		t.Errorf("%v tokens are left", got)
	}
	if s := only(t, g, now, "k"); s.Fallback || s.Allowed != 6 || s.Rejected != 3 {
		t.Errorf("in the end it shows %+v", s)
	}
}

// A host whose lease ends falls back as under elastic; one that was told to ask
// goes on asking.
func TestAutoWhenTheLeaseEnds(t *testing.T) {
	var now stage.Instant
	g, e := autoGroup(t, autoRule(1), &now)
	take(g.For("k"), now, 1)
	nothing(t, g, 1, g.Manual().Report(1))
	now = 2 * 60 * second
	batches := g.Manual().Report(now)
	if got := by(t, g, now); got != "exact" {
		t.Errorf("after the end of a lease of nothing, decided by %s", got)
	}
	granted(t, g, now, batches, 1, 5)
	asked := e.asked
	now += 2 * 60 * second
	g.Manual().Report(now)
	if got := by(t, g, now); got != "even" || e.asked != asked {
		t.Errorf("after the end of a lease, decided by %s", got)
	}
	if s := only(t, g, now, "k"); !s.Fallback {
		t.Errorf("it shows %+v", s)
	}
}

func TestAutoWithoutARemote(t *testing.T) {
	g := NewGroup(snapshot(t, autoRule(1)), 10)
	take(g.For("k"), 0, 1)
	granted(t, g, 1, g.Manual().Report(1), 0.5, 5)
	if got := by(t, g, 1); got != "elastic" {
		t.Errorf("with a grant, decided by %s", got)
	}
	said := nothing(t, g, second, g.Manual().Report(second))
	if got := by(t, g, second); got != "even" || said[0].Allowed[0] != 1 {
		t.Errorf("while the owner wants to be asked, decided by %s; said %+v", got, said)
	}
}

// Both limiters of a migration may be auto, in all modes, and one behind a
// gate; whoever decides is found anew each time.
func TestAutoMigratesAndIsGated(t *testing.T) {
	for _, mode := range []dynamicconfig.Mode{dynamicconfig.ModeOld, dynamicconfig.ModeNew} {
		for _, m := range []dynamicconfig.Migration{{From: Auto, To: "even", Mode: mode}, {From: "even", To: Auto, Mode: mode}} {
			var now stage.Instant
			r := autoRule(1)
			r.Algorithm, r.Migration = "", &m
			g, _ := autoGroup(t, r, &now)
			want := map[bool]string{true: "exact", false: "even"}[(mode == dynamicconfig.ModeOld) == (m.From == Auto)]
			if got := by(t, g, now); got != want {
				t.Errorf("%+v: decided by %s", m, got)
			}
			granted(t, g, 1, g.Manual().Report(1), 0.5, 5)
			if got := by(t, g, now); want == "exact" && got != "elastic" {
				t.Errorf("%+v: with a grant, decided by %s", m, got)
			}
		}
	}
	var now stage.Instant
	r := autoRule(1)
	r.Enforce = 0.5
	g, _ := autoGroup(t, r, &now)
	for i, want := range []string{"exact", "elastic", "exact"} {
		if got := by(t, g, now); got != want {
			t.Errorf("gated, decided by %s, want %s", got, want)
		}
		now += second
		if i == 0 {
			granted(t, g, now, g.Manual().Report(now), 0.5, 5)
		} else {
			nothing(t, g, now, g.Manual().Report(now))
		}
	}
}

// A key that sleeps is woken while its part of the table is locked.
func TestAutoSleepsAndWakes(t *testing.T) {
	var now stage.Instant
	g, e := autoGroup(t, autoRule(1), &now)
	take(g.For("k"), now, 1)
	for range 30 {
		now += second
		nothing(t, g, now, g.Manual().Report(now))
	}
	if !g.For("k").of().Idle() {
		t.Fatal("it does not sleep")
	}
	if by(t, g, now) != "exact" || e.asked != 2 {
		t.Errorf("%d asked", e.asked)
	}
	// What is owed is told before it sleeps.
	e.set(errors.New("away"))
	take(g.For("k"), now, 1)
	for range 30 {
		now += second
		nothing(t, g, now, g.Manual().Report(now))
	}
	if g.For("k").of().Idle() {
		t.Error("it sleeps, and owes a token")
	}
	e.set(nil)
	for range 30 {
		now += second
		nothing(t, g, now, g.Manual().Report(now))
	}
	if !g.For("k").of().Idle() || e.asked != 2+2+3 {
		t.Errorf("it does not sleep, or did not tell: %d asked", e.asked)
	}
	r := autoRule(10)
	r.Algorithm = "even"
	g.Manual().Configure(now, snapshot(t, r))
	take(g.For("k"), now, 1)
	r.Algorithm = Auto
	g.Manual().Configure(now, snapshot(t, r))
	take(g.For("k"), now, 1)
	r.Algorithm = "even"
	g.Manual().Configure(now, snapshot(t, r))
	g.Manual().SetHosts(now, 1)
	g.Manual().SetHosts(now, 10)
	asked := e.asked
	if got := by(t, g, now); got != "even" || e.asked != asked {
		t.Errorf("under another algorithm, decided by %s, %d asked", got, e.asked-asked)
	}
}

func TestAutoWithAGrantAllocatesNothing(t *testing.T) {
	var now stage.Instant
	g, _ := autoGroup(t, autoRule(1), &now)
	k := g.For("k")
	take(k, now, 1)
	granted(t, g, 1, g.Manual().Report(1), 1, 20)
	if n := testing.AllocsPerRun(100, func() { allowAt(k, second, 1) }); n != 0 {
		t.Errorf("%v allocations for each decision", n)
	}
}
