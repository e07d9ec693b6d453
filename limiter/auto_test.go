// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/keys"
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

// grantedGroup is autoGroup after so many events of k, which the owner was asked for, and
// its first grant.
func grantedGroup(t testing.TB, rule dynamicconfig.Rule, now *stage.Instant, events int, weight, tokens float64) (*Group, *elsewhere, *Limiter) {
	t.Helper()
	g, e := autoGroup(t, rule, now)
	k := g.For("k")
	take(k, *now, events)
	granted(t, g, *now+1, g.Manual().Report(*now+1), weight, tokens)
	return g, e, k
}

func by(t testing.TB, g *Group, now stage.Instant) string {
	t.Helper()
	return decideAt(g.For("k"), now, 1, 0).By
}

// sure is the weight of a host that gets no rate.
const sure = 1. / (1 << 42)

// Without a grant, a host asks for each event, and reports what it was given as
// wanted.
func TestAutoAsksUntilItHasAGrant(t *testing.T) {
	var now stage.Instant
	g, e := autoGroup(t, autoRule(1), &now)
	k := g.For("k")
	if got := take(k, now, 5); got != 5 || e.asked != 5 || e.last.More != 0 {
		t.Fatalf("%d taken, %d asked, the last for %+v", got, e.asked, e.last)
	}
	now = second
	batches := g.Manual().Report(now)
	take(k, now, 2)
	if s := only(t, g, now, "k"); !s.Asks || s.Fallback || s.Allowed != 7 || s.Rejected != 0 || e.asked != 7 {
		t.Errorf("asking, it shows %+v", s)
	}
	if said := granted(t, g, now, batches, 0.5, 8); said[0].Allowed[0] != 0 || said[0].Rejected[0] != 5 || said[0].Weight[0] != 0 || said[0].Wants[0] <= 0 {
		t.Errorf("said %+v", said)
	}
	if got := take(k, now, 8); got != 8 || e.asked != 7 {
		t.Errorf("of 8 tokens %d were taken, %d asked", got, e.asked)
	}
	if s := only(t, g, now, "k"); s.Asks || s.Fallback || s.Allowed != 15 || s.Rejected != 0 {
		t.Errorf("granted, it shows %+v", s)
	}
}

// With a grant, a host asks for what it has no tokens for, and by every way in.
func TestAutoAsksForWhatItLacks(t *testing.T) {
	var now stage.Instant
	g, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 3)
	if d := decideAt(k, now, 3, 0); !d.OK || d.By != Auto || e.asked != 1 {
		t.Errorf("of its own tokens: %+v, %d asked", d, e.asked)
	}
	if d := decideAt(k, now, 4, 0); !d.OK || d.By != keys.Owner || e.asked != 2 {
		t.Errorf("beyond them: %+v, %d asked", d, e.asked)
	}
	r := reserveAt(k, now, 5, 0)
	if !r.OK() || e.asked != 3 {
		t.Errorf("reserved %+v, %d asked", r, e.asked)
	}
	r.settle(now, 0)
	if got := e.buckets["k"].Tokens(now); !near(got, 20-1-4) {
		t.Errorf("%v tokens are left, after 5 came back", got)
	}
	now = second
	said := granted(t, g, now, g.Manual().Report(now), sure, 0)
	if said[0].Allowed[0] != 3 || said[0].Rejected[0] != 4 || said[0].Cost[0] < 4 {
		t.Errorf("of 3 that it had, 4 that it asked for and 5 that came back it said %+v", said[0])
	}
}

// An event that costs more than the host's part, and no more than the burst, is
// asked for.
func TestAutoAsksForCostsAboveItsPart(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
	if d := decideAt(k, now, 19, 0); !d.OK {
		t.Errorf("19 of a burst of 20: %+v", d)
	}
	if asked, d := e.asked, decideAt(k, now, 21, 0); d.Reason != TooCostly || e.asked != asked {
		t.Errorf("21 of a burst of 20: %+v, %d asked", d, e.asked-asked)
	}
}

// An owner's refusal stands for as long as it says, a second at most.
func TestAutoRemembersARefusal(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
	e.answer = &stage.Outcome{RetryAfter: 200 * time.Millisecond}
	for _, at := range []struct {
		now   stage.Instant
		asked int
	}{{1, 2}, {2, 2}, {second / 5, 2}, {second / 4, 3}} {
		if got := take(k, at.now, 1); got != 0 || e.asked != at.asked {
			t.Errorf("at %v: %d taken, %d asked", at.now, got, e.asked)
		}
	}
	e.answer = &stage.Outcome{RetryAfter: time.Hour}
	take(k, second, 1)
	asked := e.asked
	if take(k, 2*second+second/4, 1); e.asked != asked+1 {
		t.Errorf("%d asked after more than a second", e.asked-asked)
	}
}

// A caller that waits is asked for although others were refused, however many wait.
func TestAutoWaitsAsLongAsTheOwnerSays(t *testing.T) {
	var now stage.Instant
	_, _, k := grantedGroup(t, autoRule(1), &now, 20, sure, 0)
	if d := decideAt(k, now, 1, 0); d.OK {
		t.Fatalf("of an empty bucket: %+v", d)
	}
	for i := range 40 {
		d, want := decideAt(k, now, 1, time.Minute), time.Duration(i+1)*time.Second
		if !d.OK || d.Wait < want-time.Millisecond || d.Wait > want+time.Millisecond || d.By != keys.Owner {
			t.Errorf("after %d others: %+v, want to wait %v", i, d, want)
		}
	}
}

// However many events are refused, the owner is asked for a few of them only.
func TestAutoAsksWithinItsBudget(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
	e.answer = &stage.Outcome{RetryAfter: 1}
	before := e.asked
	const seconds = 10
	for now = 1; now < seconds*second; now += second / 1000 {
		take(k, now, 1)
	}
	if got := e.asked - before; got > 56+7*seconds+1 || got < 7*seconds {
		t.Errorf("%d times in %d s", got, seconds)
	}
}

// A host with few events asks for each of them, for longer than its budget would last otherwise.
func TestAutoAsksForEachOfFewEvents(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1000), &now, 1, sure, 0)
	before, passed := e.asked, 0
	const seconds, perSecond = 60, 12
	for now = second; now <= seconds*second; now += second / perSecond {
		passed += take(k, now, 1)
	}
	if asked := e.asked - before; passed < (seconds-1)*perSecond || asked < passed {
		t.Errorf("asked for %d events, and %d passed", asked, passed)
	}
}

// By the cost of a small event, an owner takes a host whose events are few and large for one with many, and
// lends it what others need sooner. So the host says then that it can hold nothing.
func TestAutoBorrowsNothingForASmallEventOfAFewLargeOnes(t *testing.T) {
	for _, c := range []struct {
		name             string
		perSecond, large int
		borrows          bool
	}{
		{"few and large", 3, 100, false},
		{"many and large", 60, 100, true},
		{"few and small", 3, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var now stage.Instant
			rule := autoRule(10_000)
			rule.Burst = 1000
			_, e, k := grantedGroup(t, rule, &now, 1, sure, 0)
			borrows := 0
			for i := range 40 * 8 {
				now += second / stage.Instant(c.perSecond)
				cost := c.large
				if i%8 == 0 {
					cost = 1
				}
				if decideAt(k, now, cost, 0); cost == 1 && i >= 80 && e.last.More >= 1 {
					borrows++
				}
				if i >= 80 && !(e.last.Wants > 0) {
					t.Fatalf("an ask says that the host wants nothing: %+v", e.last)
				}
			}
			if (borrows > 0) != c.borrows {
				t.Errorf("%d asks for a small event say that the host can hold more", borrows)
			}
		})
	}
}

// An owner that does not answer three asks in a row is left alone for a moment, and for longer after each ask
// more: one that is back soon, as after a restart, is asked again soon. The host's own part decides meanwhile.
func TestAutoDoesNotWaitForAnOwnerThatIsAway(t *testing.T) {
	const soon = stage.Instant(20 * time.Millisecond)
	now := stage.Instant(1)
	rule := autoRule(1)
	rule.AskTimeout = 2 * time.Second
	_, e, k := grantedGroup(t, rule, &now, 1, sure, 2)
	e.set(errors.New("away"))
	asked := func() int { return e.asked + len(e.ahead) - 1 } // of them, one without a grant
	if got := take(k, now, 5); got != 2 || asked() != 1 {
		t.Errorf("%d taken, %d asked", got, asked())
	}
	for i := range 2 {
		if now += soon; take(k, now, 5) != 0 || asked() != 2+i {
			t.Errorf("soon after it, %d asked", asked())
		}
	}
	for i, pause := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		end := now.Add(pause*time.Millisecond + rule.AskTimeout)
		if got := take(k, end-1, 1); got != 0 || asked() != 3+i {
			t.Errorf("within a pause of %d ms %d taken, %d asked", pause, got, asked())
		}
		if i == 5 {
			e.set(nil)
		}
		if now = end; (take(k, now, 1) == 1) != (i == 5) || asked() != 4+i {
			t.Errorf("after a pause of %d ms, %d asked", pause, asked())
		}
	}
}

// A message that is lost costs one event, and not all of the next second.
func TestAutoAsksAgainAfterALostMessage(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
	for i := range stage.Instant(20) {
		at, lost := i*stage.Instant(50*time.Millisecond)+1, i%3 > 0 // never three in a row
		e.set(nil)
		if lost {
			e.set(errors.New("lost"))
		}
		if got := take(k, at, 1); (got == 1) == lost {
			t.Errorf("event %d: %d taken, lost: %v", i, got, lost)
		}
	}
}

// ownerLost is an owner with 15 of 20 tokens that does not answer any more. A fifth of them is the host's fair part, whose
// grant is used up.
func ownerLost(t *testing.T, rule dynamicconfig.Rule, now *stage.Instant) (*Group, *elsewhere, *Limiter) {
	t.Helper()
	g, e := autoGroup(t, rule, now)
	k := g.For("k")
	take(k, *now, 1)
	*now = 1
	grants := grantOf(sure, 0, time.Minute)
	grants.Tokens, grants.Used = []float64{0}, []float64{float64(rule.Limit) / 5}
	if err := g.Manual().Apply(*now, g.Manual().Report(*now)[0], nil, grants); err != nil {
		t.Fatal(err)
	}
	if got := take(k, *now, 4); got != 4 || e.asked != 5 {
		t.Fatalf("%d taken, %d asked", got, e.asked)
	}
	e.set(errors.New("lost"))
	return g, e, k
}

// A host lets no event through that its report has counted as rejected.
func TestAutoPaysForNoEventThatWasReported(t *testing.T) {
	var now stage.Instant
	g, e, k := ownerLost(t, autoRule(100), &now)
	e.delayed = func() { g.Manual().Report(now + second) }
	if d := reserveAt(k, now, 1, 0); d.OK() {
		t.Errorf("it answers %+v", d)
	}
}

// An event whose ask is lost is let through if the host's fair part of what the owner had pays it. The next report
// says so, without what was given back.
func TestAutoPaysForALostAskByItsFairPart(t *testing.T) {
	for _, closed := range []bool{false, true} {
		var now stage.Instant
		rule := autoRule(100)
		if closed {
			rule.Fallback = dynamicconfig.FallbackClosed
		}
		g, _, k := ownerLost(t, rule, &now)
		if d := reserveAt(k, now, 4, 0); d.OK() {
			t.Errorf("4 are more than its part: %+v", d)
		}
		now += 20 * stage.Instant(time.Millisecond)
		d := reserveAt(k, now, 2, 0)
		if d.OK() == closed || !closed && d.Left != -2 {
			t.Errorf("closed: %v; it answers %+v", closed, d)
		}
		d.settle(now, 1)
		now += 20 * stage.Instant(time.Millisecond)
		if d := reserveAt(k, now, 3, 0); d.OK() {
			t.Errorf("of 3, 2 are used: %+v", d)
		}
		want := int64(1)
		if closed {
			want = 0
		}
		if said := g.Manual().Report(now)[0].Usage; said.Allowed[0] != want || said.Allowed[0]+said.Rejected[0] < 4+2 {
			t.Errorf("closed: %v; it says %+v", closed, said)
		}
	}
}

// Asks that are lost together are paid out of one fair part of the host.
func TestAutoPaysForAsksLostTogetherByOneFairPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now stage.Instant
		_, e, k := ownerLost(t, autoRule(100), &now)
		e.delay = time.Millisecond
		var asking sync.WaitGroup
		var paid atomic.Int64
		for range 20 {
			asking.Go(func() { paid.Add(int64(take(k, now, 1))) })
		}
		asking.Wait()
		if got := paid.Load(); got > 3 {
			t.Errorf("%d are paid out of a fair part of 3", got)
		}
	})
}

// An answer of the owner, which does not know yet what the host has paid alone, gives the host no other fair part.
func TestAutoPaysForLostAsksByOneFairPartUntilAReport(t *testing.T) {
	var now stage.Instant
	g, e, k := ownerLost(t, autoRule(1), &now)
	paid := 0
	for range 40 {
		e.set(errors.New("lost"))
		paid += take(k, now, 1)
		now += 20 * stage.Instant(time.Millisecond)
		e.set(nil)
		take(k, now, 1)
		now += 20 * stage.Instant(time.Millisecond)
	}
	if paid == 0 || paid > 3 {
		t.Errorf("%d are paid out of a fair part of 3", paid)
	}

	now += second
	grants := grantOf(sure, 0, time.Minute)
	grants.Tokens, grants.Used = []float64{0}, []float64{1. / 5}
	if err := g.Manual().Apply(now, g.Manual().Report(now)[0], nil, grants); err != nil {
		t.Fatal(err)
	}
	e.set(errors.New("lost"))
	if got := take(k, now, 1); got != 0 {
		t.Error("it is paid, although the owner has not said since the report what it has")
	}
	now += second
	e.set(nil)
	e.answer = &stage.Outcome{OK: true, Left: 15}
	take(k, now, 1)
	e.set(errors.New("lost"))
	if got := take(k, now, 1); got != 1 {
		t.Error("the owner knows what was paid, and the host has no other fair part")
	}
}

// Asks that are under way together and get no answer may have one cause, and count as one.
func TestAsksThatAreMissedTogetherAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now stage.Instant
		_, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
		e.set(errors.New("late"))
		e.delay = time.Millisecond
		var asking sync.WaitGroup
		for range 5 {
			asking.Go(func() { take(k, 1, 1) })
		}
		asking.Wait()
		e.set(nil)
		if got := take(k, stage.Instant(20*time.Millisecond), 1); got != 1 || e.asked < 6 {
			t.Errorf("%d taken soon after it, %d asked", got, e.asked)
		}
	})
}

// An ask that ends after its key has changed to another algorithm changes nothing of what
// that one lets the host have.
func TestALateAskChangesNothingOfAnotherAlgorithm(t *testing.T) {
	for _, err := range []error{errors.New("no answer"), nil} {
		now := second
		g, e, k := grantedGroup(t, autoRule(100), &now, 1, 0.5, 1)
		take(k, now, 1)
		e.lends = 10
		e.delayed = func() {
			e.delayed, e.err = nil, err
			rule := autoRule(100)
			rule.Algorithm = "request-weighted"
			g.Manual().Configure(now, snapshot(t, rule))
			now += second
			answer(t, g, now, 0.01, 100, usage.FloorNone, time.Minute)
		}
		for e.delayed != nil {
			allowAt(k, now, 1)
		}
		if l := keyOf(k).Level(now); l.Limit != 1 || l.Tokens > 1 {
			t.Errorf("the ask ended with %v: the host has %+v, want 1/s and one token", err, l)
		}
	}
}

// While the owner does not answer asks, one after another, the host may use its whole fair part.
func TestAutoUsesItsFairPartAlone(t *testing.T) {
	var now stage.Instant
	g, e := autoGroup(t, autoRule(100), &now)
	k := g.For("k")
	take(k, now, 1)
	grant := func(now stage.Instant) {
		grants := grantOf(0.5, 10, time.Minute)
		grants.Tokens, grants.Used = []float64{0}, []float64{60}
		if err := g.Manual().Apply(now, g.Manual().Report(now)[0], nil, grants); err != nil {
			t.Fatal(err)
		}
	}
	grant(1)
	for i, want := range []float64{60, 50} {
		e.set([]error{errors.New("away"), nil}[i])
		for j := range stage.Instant(3) {
			if got := only(t, g, now, "k").Level.Limit; !near(float64(got), 50) {
				t.Errorf("after %d times %v the host has %v/s", j, e.err, got)
			}
			take(k, stage.Instant(2*i)*second+1+20*j*stage.Instant(time.Millisecond), 5)
		}
		if got := only(t, g, now, "k").Level.Limit; !near(float64(got), want) {
			t.Errorf("after error %v the host has %v/s", e.err, got)
		}
		grant(stage.Instant(2*i+1) * second)
	}
}

// A loan is the host's until it reports.
func TestAutoBorrows(t *testing.T) {
	var now stage.Instant
	g, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
	e.lends = 6
	if take(k, 1, 1); e.last.More != 20 || e.last.Wants <= 0 {
		t.Errorf("it asked for %+v", e.last)
	}
	asked := e.asked
	if got := take(k, 1, 6); got != 6 || e.asked != asked {
		t.Errorf("of 6 that were lent %d were taken, %d asked", got, e.asked-asked)
	}
	if e.lends = 100; take(k, 1, 1) != 1 || only(t, g, 1, "k").Level.Tokens != 20 {
		t.Errorf("of 100 that were lent, it has %+v", only(t, g, 1, "k").Level)
	}
	now = second
	said := granted(t, g, now, g.Manual().Report(now), sure, 4)
	if said[0].Allowed[0] != 6 || said[0].Rejected[0] != 2 {
		t.Errorf("said %+v", said[0])
	}
	if got := only(t, g, now, "k").Level.Tokens; !near(got, 4) {
		t.Errorf("granted 4, it has %v", got)
	}
}

// A grant says how deep the bucket is, also one that changes no tokens.
func TestAGrantEndsTheDepthOfALoan(t *testing.T) {
	var now stage.Instant
	g, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
	if e.lends = 19; take(k, 1, 1) != 1 || only(t, g, 1, "k").Level.Burst < 19 {
		t.Fatalf("it has borrowed %+v", only(t, g, 1, "k").Level)
	}
	now = second
	for _, b := range g.Manual().Report(now) {
		if err := g.Manual().Apply(now, b, nil, grantOf(sure, 10, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if got := only(t, g, now, "k").Level; !near(got.Burst, 10) || got.Tokens > 10.001 {
		t.Errorf("granted a burst of 10, it has %+v", got)
	}
}

// While a report is under way, the host does not know whether the owner takes back with
// it what it lends meanwhile. So the host borrows nothing.
func TestAutoBorrowsNothingWhileAReportIsUnderWay(t *testing.T) {
	var now stage.Instant
	g, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 1)
	take(k, 1, 1) // which the grant covers
	now, e.lends = second, 6
	batches := g.Manual().Report(now)
	if take(k, now, 1); !(e.last.More > 0 && e.last.More < 1) { // less than a token says that it has a grant
		t.Errorf("it asked for %+v", e.last)
	}
	granted(t, g, now, batches, sure, 1)
	take(k, now, 1)
	var under []*batch
	e.delayed = func() { under = g.Manual().Report(now + second) } // while the owner decides
	asked := e.asked
	if take(k, now+second, 1); e.asked != asked+1 || len(under) != 1 {
		t.Fatalf("%d asked, %d reports", e.asked-asked, len(under))
	}
	e.delayed = nil
	granted(t, g, now+second, under, sure, 0)
	if got := only(t, g, now+second, "k").Level.Tokens; got > 0.1 {
		t.Errorf("it has %v tokens that its report gave back", got)
	}
}

// The host charges the owner with the events that its fallback lets through, and reports them as
// wanted and not as used: so the owner charges them once.
func TestWhatAutoFallsBackForIsChargedOnce(t *testing.T) {
	var now stage.Instant
	g, e := autoGroup(t, autoRule(1), &now)
	k := g.For("k")
	take(k, now, 1)
	e.set(errors.New("away"))
	now = second
	if got := take(k, now, 5); got != 2 { // of an even share of 20
		t.Errorf("the fallback lets %d through", got)
	}
	if s := only(t, g, now, "k"); !s.Fallback || !s.Asks || s.Allowed != 3 || s.Rejected != 3 {
		t.Errorf("in fallback, it shows %+v", s)
	}
	reserveAt(k, now, 1, time.Hour).settle(now, 0) // it did not happen
	said := g.Manual().Report(now)
	if said[0].Usage.Allowed[0] != 0 || said[0].Usage.Rejected[0] != 6 {
		t.Errorf("said %+v", said[0].Usage)
	}
	e.set(nil)
	reserveAt(k, now, 1, 0).settle(now, 0)
	charge(keyOf(k), now, 3)
	if got := e.buckets["k"].Tokens(now); !near(got, 20-2-3) { // it was full again
		t.Errorf("%v tokens are left", got)
	}
	if s := only(t, g, now, "k"); s.Fallback || s.Allowed != 6 || s.Rejected != 3 {
		t.Errorf("in the end it shows %+v", s)
	}
}

// A host whose lease ends asks for each event again, and says so soon.
func TestAutoWhenTheLeaseEnds(t *testing.T) {
	var now stage.Instant
	g, e := autoGroup(t, autoRule(1), &now)
	take(g.For("k"), now, 1)
	granted(t, g, 1, g.Manual().Report(1), 1, 5)
	asked := e.asked
	now = 2 * 60 * second
	g.Manual().Report(now)
	if got := by(t, g, now); got != keys.Owner || e.asked != asked+1 {
		t.Errorf("after the end of a lease, decided by %s", got)
	}
	e.set(errors.New("away"))
	if d := decideAt(g.For("k"), now, 1, 0); d.By != "even" || d.Burst != 2 {
		t.Errorf("without its owner, decided %+v", d)
	}
	if s := only(t, g, now, "k"); !s.Fallback {
		t.Errorf("it shows %+v", s)
	}
}

// Without a Remote, a host cannot ask, and its even share decides.
func TestAutoWithoutARemote(t *testing.T) {
	g := NewGroup(snapshot(t, autoRule(10)), 10)
	if got := by(t, g, 0); got != Auto {
		t.Errorf("decided by %s", got)
	}
	if b := g.Manual().Report(second); len(b) != 0 {
		t.Errorf("it reports %+v", b[0].Usage)
	}
	if got := take(g.For("k"), second, 20); got != 2 {
		t.Errorf("%d of a tenth of a burst of 20", got)
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
			want := map[bool]string{true: keys.Owner, false: "even"}[(mode == dynamicconfig.ModeOld) == (m.From == Auto)]
			if got := by(t, g, now); got != want {
				t.Errorf("%+v: decided by %s", m, got)
			}
			granted(t, g, 1, g.Manual().Report(1), 0.5, 5)
			if got := by(t, g, now); want == keys.Owner && got != Auto {
				t.Errorf("%+v: with a grant, decided by %s", m, got)
			}
		}
	}
	var now stage.Instant
	r := autoRule(1)
	r.Enforce = 0.5
	g, _ := autoGroup(t, r, &now)
	for i, want := range []string{keys.Owner, Auto, keys.Owner} {
		if got := by(t, g, now); got != want {
			t.Errorf("gated, decided by %s, want %s", got, want)
		}
		now += second
		granted(t, g, now, g.Manual().Report(now), sure, []float64{5, 0, 0}[i])
	}
}

// A key that sleeps is woken while its part of the table is locked.
func TestAutoSleepsAndWakes(t *testing.T) {
	var now stage.Instant
	g, e := autoGroup(t, autoRule(1), &now)
	rest := func() {
		t.Helper()
		for range 30 {
			now += second
			for _, b := range g.Manual().Report(now) {
				granted(t, g, now, []*batch{b}, sure, 0)
			}
		}
	}
	take(g.For("k"), now, 1)
	if rest(); !keyOf(g.For("k")).Idle() {
		t.Fatal("it does not sleep")
	}
	if by(t, g, now); e.asked != 2 {
		t.Errorf("%d asked", e.asked)
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
	_, _, k := grantedGroup(t, autoRule(1), &now, 1, 1, 20)
	if n := testing.AllocsPerRun(100, func() { allowAt(k, second, 1) }); n != 0 {
		t.Errorf("%v allocations for each decision", n)
	}
}

// An event that can wait is not scheduled by the host's part, which may have almost no
// rate, where the owner pays at once. The host's tokens stay.
func TestAutoAsksBeforeALongWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		now := stage.Now()
		g, e, k := grantedGroup(t, autoRule(1), &now, 1, 0.1, 0) // an event in ten seconds
		e.now = stage.Now
		began := time.Now()
		if err := k.Wait(t.Context()); err != nil || time.Since(began) > 0 || e.asked != 2 {
			t.Errorf("waited %v: %v, %d asked", time.Since(began), err, e.asked)
		}
		if e.last.Longest < 9*time.Second || e.last.Longest > 11*time.Second {
			t.Errorf("it asked to wait %v at most", e.last.Longest)
		}
		if r := k.Reserve(); r.Delay() != 0 || e.asked != 3 {
			t.Errorf("reserved for %v, %d asked", r.Delay(), e.asked)
		}
		if s := only(t, g, stage.Now(), "k"); s.Level.Tokens < -1e-3 || s.Allowed != 3 || s.Rejected != 0 {
			t.Errorf("%+v", s)
		}

		// An owner that refuses leaves it to the bucket.
		e.answer = &stage.Outcome{RetryAfter: 200 * time.Millisecond}
		asked := e.asked
		r := k.Reserve()
		if got := r.Delay().Round(time.Second); got != 10*time.Second || e.asked != asked+1 {
			t.Errorf("reserved for %v, %d asked", got, e.asked-asked)
		}
		if s := only(t, g, stage.Now(), "k"); s.Allowed != 4 || s.Rejected != 0 {
			t.Errorf("%+v", s)
		}
		r.Cancel()

		// A short wait is not worth a round trip.
		e.answer = nil
		time.Sleep(10*time.Second + time.Millisecond)
		k.Reserve() // which the grant covers
		granted(t, g, stage.Now(), g.Manual().Report(stage.Now()), 1, 0)
		asked = e.asked
		time.Sleep(time.Second - 4*time.Millisecond)
		if r := k.Reserve(); r.Delay() <= 0 || r.Delay() > 5*time.Millisecond || e.asked != asked {
			t.Errorf("reserved for %v, %d asked", r.Delay(), e.asked-asked)
		}
	})
}

// A caller that goes while the owner is asked leaves nothing behind.
func TestAutoWhoseCallerGoesBeforeALongWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		now := stage.Now()
		g, e, k := grantedGroup(t, autoRule(1), &now, 1, 0.1, 0)
		e.now = stage.Now
		e.delay = 10 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if err := k.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("waited: %v", err)
		}
		if s := only(t, g, stage.Now(), "k"); s.Level.Tokens < -1e-3 || s.Allowed != 1 || s.Rejected != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// With a time of the caller's own, a host with a grant asks only if that is about now:
// the owner decides as of its own clock.
func TestAutoAsksOnlyAsOfNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		now := stage.Now()
		g, e := autoGroup(t, autoRule(1), &now)
		e.now = stage.Now
		k := g.For("k")
		if !k.AllowN(time.Now().Add(-time.Hour), 1) || e.asked != 1 {
			t.Errorf("without a grant, %d asked", e.asked)
		}
		granted(t, g, now+1, g.Manual().Report(now+1), sure, 0)
		for _, row := range []struct {
			off  time.Duration
			asks bool
		}{{0, true}, {-20 * time.Millisecond, true}, {20 * time.Millisecond, true}, {-21 * time.Millisecond, false}, {21 * time.Millisecond, false}, {-time.Hour, false}, {time.Hour, false}} {
			for name, ask := range map[string]func(at time.Time){
				"AllowN":   func(at time.Time) { k.AllowN(at, 1) },
				"ReserveN": func(at time.Time) { k.ReserveN(at, 1).CancelAt(at) },
			} {
				asked := e.asked
				if ask(time.Now().Add(row.off)); (e.asked > asked) != row.asks {
					t.Errorf("%s %v off: %d asked", name, row.off, e.asked-asked)
				}
			}
		}
	})
}

// An error of a cost that is never allowed names the figure that it exceeds: the rule's,
// where the owner would be asked for what this host's part does not cover.
func TestTheErrorOfACostThatIsTooHighNamesWhatItExceeds(t *testing.T) {
	var now stage.Instant
	_, _, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
	err := k.WaitN(t.Context(), 21)
	if !errors.Is(err, ErrNever) || !strings.Contains(err.Error(), "max_cost, which is the burst by default, 20:") {
		t.Errorf("21 of a burst of 20: %v", err)
	}
}
