// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/limiter/stage"
)

// grantedAuto is a host whose grant gives it no tokens, so that it asks for each event.
// Its key's owner has 9 tokens left of 20.
func grantedAuto(t *testing.T, now *stage.Instant) (*elsewhere, *Limiter) {
	t.Helper()
	_, e, k := grantedGroup(t, autoRule(1), now, 1, sure, 0)
	if d := decideAt(k, *now, 10, 0); !d.OK {
		t.Fatalf("10 of 19 tokens: %+v", d)
	}
	return e, k
}

// An owner's refusal says nothing about events that cost less, or whose callers wait
// longer.
func TestARefusalStandsForWhatIsNoEasier(t *testing.T) {
	var now stage.Instant
	e, k := grantedAuto(t, &now)
	if d := decideAt(k, now, 15, 0); d.OK || d.Reason != Limited {
		t.Fatalf("15 of 9 tokens: %+v", d)
	}
	asked := e.asked
	if d := decideAt(k, now+1, 15, 0); d.OK || d.Reason != Limited || e.asked != asked {
		t.Errorf("again: %+v, %d asked", d, e.asked-asked)
	}
	if d := decideAt(k, now+1, 9, 0); !d.OK {
		t.Errorf("9 of 9 tokens: %+v", d)
	}
	if d := decideAt(k, now+1, 1, 0); d.OK {
		t.Errorf("one of none: %+v", d)
	}
	if d := decideAt(k, now+2, 1, 5*time.Second); !d.OK || d.Wait == 0 {
		t.Errorf("one within 5 s: %+v", d)
	}
}

// An owner's refusal stands also after it has refused another event. So callers of two kinds that wait do
// not ask in turns, each time.
func TestARefusalStandsAfterAnother(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1), &now, 20, sure, 0)
	asked := e.asked
	for range 500 { // for a second
		now += 2 * second / 1000
		for _, n := range []int{10, 5} {
			if d := decideAt(k, now, n, time.Duration(n)*time.Second/5); d.OK || d.RetryAfter <= 0 {
				t.Fatalf("%d tokens: %+v", n, d)
			}
		}
	}
	if n := e.asked - asked; n > 4 {
		t.Errorf("%d of 1000 events asked", n)
	}
}

// A host asks at once after the limit, the burst or the debt has changed, unless its owner does not answer.
func TestARefusalEndsWithTheLimitItWasAbout(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(r *rule.Rule)
		err    error
		asked  int
	}{
		{"nothing", func(*rule.Rule) {}, nil, 0},
		{"the description", func(r *rule.Rule) { r.Description = "another" }, nil, 0},
		{"the limit", func(r *rule.Rule) { r.Limit = 1e6 }, nil, 1},
		{"the burst", func(r *rule.Rule) { r.Burst = 1e6 }, nil, 1},
		{"the debt", func(r *rule.Rule) { r.MaxDebt = time.Minute }, nil, 1},
		{"the limit, while the owner does not answer", func(r *rule.Rule) { r.Limit = 1e6 }, context.DeadlineExceeded, 0},
	} {
		var now stage.Instant
		limits := autoRule(1)
		g, e, k := grantedGroup(t, limits, &now, 20, sure, 0)
		if e.err = row.err; take(k, 1, 1) != 0 {
			t.Fatal("the bucket was empty")
		}
		asked := e.asked
		row.change(&limits)
		g.Manual().Configure(2, snapshot(t, limits))
		if take(k, 3, 1); e.asked != asked+row.asked {
			t.Errorf("after a change of %s: %d asked", row.name, e.asked-asked)
		}
	}
}

// A refused caller hears when the owner has the tokens: the host's own bucket never has
// them.
func TestARefusedCallerHearsWhatTheOwnerSays(t *testing.T) {
	var now stage.Instant
	e, k := grantedAuto(t, &now)
	for _, says := range []time.Duration{200 * time.Millisecond, time.Minute} {
		e.answer = &stage.Outcome{RetryAfter: says}
		if d := decideAt(k, now, 1, 0); d.RetryAfter != says {
			t.Errorf("retry after %v; the owner says %v", d.RetryAfter, says)
		}
		now += second / 10
		if d := decideAt(k, now, 1, 0); d.RetryAfter != says-time.Second/10 {
			t.Errorf("retry after %v, 100 ms after the owner said %v", d.RetryAfter, says)
		}
		now += 2 * second
	}
}

// A caller that is refused hears when the host may ask again, if the owner was not asked or did
// not say.
func TestARefusedCallerHearsWhenTheHostAsksAgain(t *testing.T) {
	for _, row := range []struct {
		name string
		with func(e *elsewhere, k *Limiter, now *stage.Instant)
		want time.Duration
	}{
		{"asked too often", func(e *elsewhere, k *Limiter, now *stage.Instant) {
			e.answer = &stage.Outcome{RetryAfter: 1}
			for asked := -1; asked != e.asked; *now += 2 { // a refusal stands for 1 ns
				asked = e.asked
				decideAt(k, *now, 1, 0)
			}
		}, time.Second / 7},
		{
			"no answer", func(e *elsewhere, k *Limiter, now *stage.Instant) { e.set(errors.New("away")) },
			time.Second + rule.DefaultAskTimeout,
		},
		{"no room to ask", func(e *elsewhere, k *Limiter, now *stage.Instant) { e.set(stage.ErrBusy) }, 10 * time.Millisecond},
		{"the owner does not say", func(e *elsewhere, k *Limiter, now *stage.Instant) { e.answer = &stage.Outcome{} }, 5 * time.Second / 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			var now stage.Instant
			e, k := grantedAuto(t, &now)
			row.with(e, k, &now)
			for range 2 { // the second is not asked for
				if d := decideAt(k, now, 1, 0); d.OK || d.RetryAfter <= 0 || d.RetryAfter > row.want {
					t.Errorf("%+v; want to retry after at most %v", d, row.want)
				}
				now++
			}
		})
	}
}

// A caller that would wait hears when the bucket of this host has the tokens within that
// time, if that comes before the owner has them.
func TestARefusedCallerThatWouldWaitHearsWhatTheBucketSays(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1), &now, 1, 0.5, 0)
	e.answer = &stage.Outcome{RetryAfter: time.Minute}
	if d := decideAt(k, 1, 1, 0); !near(d.RetryAfter.Seconds(), 2) {
		t.Fatalf("%+v; the bucket has a token in 2 s", d)
	}
	if d := decideAt(k, 1, 1, time.Second); d.OK || !near(d.RetryAfter.Seconds(), 1) {
		t.Errorf("%+v; after 1 s the bucket has a token within 1 s", d)
	}
}

// An event that is said to be years ahead does not keep the host from asking now.
func TestAnEventInTheFutureDoesNotEndAsking(t *testing.T) {
	var now stage.Instant
	e, k := grantedAuto(t, &now)
	e.answer = &stage.Outcome{RetryAfter: 200 * time.Millisecond}
	take(k, stage.At(time.Now().Add(time.Hour*24*365)), 1)
	asked := e.asked
	if take(k, second, 1); e.asked == asked {
		t.Error("not asked")
	}
}

// lender is a Remote that lends all that it may beside an event. While it is asked, again is called.
type lender struct {
	more  []float64
	again func()
}

func (l *lender) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	if op.N == 0 { // it asks ahead
		return stage.Outcome{OK: true}, nil
	}
	l.more = append(l.more, op.More)
	if again := l.again; again != nil {
		l.again = nil
		again()
	}
	return stage.Outcome{OK: true, Lent: op.More}, nil
}

// Of events that are asked for at the same time, one may borrow.
func TestOneAskAtATimeBorrows(t *testing.T) {
	l := new(lender)
	g := NewGroup(snapshot(t, autoRule(1)), 10, WithRemote(Auto, l), WithSeed(1), WithBackground(func(f func()) { f() }))
	k := g.For("k")
	take(k, 0, 1)
	granted(t, g, 1, g.Manual().Report(1), sure, 0)
	l.more, l.again = nil, func() { take(k, 2, 1) }
	if take(k, 2, 1); len(l.more) != 2 || l.more[0] != 20 || l.more[1] >= 1 {
		t.Errorf("they ask for %v beside their events", l.more)
	}
	if take(k, 3, 20); len(l.more) != 2 {
		t.Errorf("%v were asked for with 20 tokens", l.more[2:])
	}
	if take(k, 3, 1); len(l.more) != 3 || l.more[2] != 20 {
		t.Errorf("then %v were asked for", l.more)
	}
}

// Events that come while their host asks for the same key share calls. The budget of the key is for calls: the
// first event of each takes an eighth from it, and the others next to nothing.
func TestABatchOfEventsSharesACall(t *testing.T) {
	const events = 900 // a host may ask a thousand times at once, for all keys
	for _, c := range []struct {
		underway    int
		least, most int
	}{{1, 400, 448}, {2, events, events}} {
		l := new(lender)
		rule := autoRule(1000)
		rule.Burst = 1000
		g := NewGroup(snapshot(t, rule), 10, WithRemote(Auto, l), WithSeed(1), WithBackground(func(f func()) { f() }))
		k, now := g.For("k"), stage.Instant(1)
		take(k, 0, 1)
		granted(t, g, now, g.Manual().Report(now), sure, 100)
		for range 100 { // it wants 100/s, so that its asks are not cheap by themselves
			now += second / 100
			take(k, now, 1)
		}
		passed, waiting := 0, 0
		var ask func()
		ask = func() {
			if waiting++; waiting > c.underway {
				passed = take(k, now, events)
				return
			}
			l.again = ask
			take(k, now, 1)
		}
		l.more = nil
		if ask(); passed < c.least || passed > c.most || len(l.more) != c.underway+passed {
			t.Errorf("of %d events that came during %d asks, %d passed, want %d to %d; %d were asked for", events, c.underway, passed, c.least, c.most, len(l.more)-c.underway)
		}
	}
}

// Hosts borrow while answers to reports come.
func TestBorrowingWhileGrantsCome(t *testing.T) {
	e := new(lender)
	g := NewGroup(snapshot(t, autoRule(1)), 10, WithRemote(Auto, e), WithSeed(1))
	k := g.For("k")
	take(k, 0, 1)
	granted(t, g, 1, g.Manual().Report(1), sure, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range stage.Instant(2000) {
			take(k, i*second/10, 2)
		}
	}()
	for now := second; ; now += second {
		granted(t, g, now, g.Manual().Report(now), sure, 2)
		select {
		case <-done:
			return
		default:
		}
	}
}

// A caller that cannot wait is refused, and not told to come back, once the host may
// not ask any more: a shadow would come back for each event.
func TestACanceledAskIsWithinTheBudget(t *testing.T) {
	g := NewGroup(snapshot(t, autoRule(1)), 10, WithRemote(Auto, new(lender)), WithSeed(1))
	k := g.For("k")
	take(k, 0, 1)
	granted(t, g, 1, g.Manual().Report(1), sure, 0)
	g.Manual().Report(1) // without an answer, nothing is lent
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := stage.Request{Now: 2, N: 1, Kind: stage.Final}
	if v, _ := k.Stage().Take(ctx, q); v.Reason != stage.Canceled {
		t.Errorf("before any ask: %+v", v)
	}
	for take(k, 2, 1) > 0 {
	}
	if v, _ := k.Stage().Take(ctx, q); v.Reason != stage.Limited {
		t.Errorf("after all asks: %+v", v)
	}
}

// When a caller cancels, the host gives the owner back the tokens that the owner gave. Other
// callers that have reserved tokens of the host's own bucket do not change that.
func TestACancelledWaitGoesBackToTheOwner(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1000), &now, 1, 0.5, 0)
	now += second
	e.answer = &stage.Outcome{OK: true, Wait: time.Millisecond, Left: -0.5}
	paid := reserveAt(k, now, 1, stage.Forever)
	for range 1000 {
		if paid = reserveAt(k, now, 1, stage.Forever); paid.By == stage.ByOwner {
			break
		}
	}
	if here := keyOf(k).Level(now).Tokens; !paid.OK() || paid.By != stage.ByOwner || here >= -1 {
		t.Fatalf("the owner does not pay: %+v, with %v tokens here", paid, here)
	}
	paid.cancel(now)
	if e.last.Kind != stage.ReturnTokens || e.last.N != 1 {
		t.Errorf("the owner was last told of %+v", e.last)
	}
}

// An owner that answers a key with a grant again, and fails once more, is warned of twice.
func TestEachOutageOfKeysWithGrantsIsWarnedOf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		now := stage.Now()
		e := newElsewhere(stage.Now)
		g := NewGroup(snapshot(t, autoRule(1)), 10, WithRemote(Auto, e), WithSeed(1), WithBackground(func(f func()) { f() }),
			WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		k := g.For("k")
		take(k, now, 1)
		granted(t, g, now+1, g.Manual().Report(now+1), sure, 0)
		for i := range 4 {
			time.Sleep(5 * time.Second)
			e.set([]error{errors.New("away"), nil}[i%2])
			take(k, stage.Now(), 20) // more than it has by itself
		}
		if got := log.String(); strings.Count(got, "does not answer") != 2 || strings.Count(got, "answers again") != 2 {
			t.Errorf("after two outages, the log is:\n%s", got)
		}
	})
}

// An owner that answers a key with a grant, and makes no sense, is warned of once until it makes sense again.
func TestNonsenseOfKeysWithGrantsIsWarnedOf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		now := stage.Now()
		e := newElsewhere(stage.Now)
		g := NewGroup(snapshot(t, autoRule(1)), 10, WithRemote(Auto, e), WithSeed(1), WithBackground(func(f func()) { f() }),
			WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		k := g.For("k")
		take(k, now, 1)
		granted(t, g, now+1, g.Manual().Report(now+1), sure, 0)
		for _, answer := range []*stage.Outcome{{OK: true, Wait: time.Hour}, {OK: true, Wait: time.Hour}, nil, {OK: true, Left: math.NaN()}} {
			time.Sleep(5 * time.Second)
			e.answer = answer
			take(k, stage.Now(), 20) // more than it has by itself
		}
		if got := log.String(); strings.Count(got, "the answer of a key's owner") != 2 || strings.Contains(got, "does not answer") {
			t.Errorf("after nonsense, an answer and nonsense, the log is:\n%s", got)
		}
	})
}
