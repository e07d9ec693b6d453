// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// A host that uses up its loan asks for the next one before it has to.
func TestAutoAsksAhead(t *testing.T) {
	var now stage.Instant
	g, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
	e.lends, e.lendsAhead = 6, 10
	now = 2 * second / 1000 // later than at once
	take(k, now, 1+3)
	if asked := e.asked; len(e.ahead) != 0 || asked != 2 {
		t.Fatalf("with 3 of 6 left, %d asked, and %+v ahead", asked, e.ahead)
	}
	take(k, now, 1)
	if len(e.ahead) != 1 || e.ahead[0].More != 18 || e.ahead[0].Wants < 5 {
		t.Fatalf("with 2 left of a burst of 20, it asks for %+v", e.ahead)
	}
	if got := only(t, g, now, "k"); got.Level.Tokens != 12 || got.Asked != (beyond{Asks: 2, Granted: 2, Lent: 16}) {
		t.Errorf("then it has %+v", got)
	}
	e.lendsAhead = 0
	if got := take(k, now, 12); got != 12 || e.asked != 2 || len(e.ahead) != 2 {
		t.Errorf("of 12, %d pass, with %d asks for events and %d ahead: one until a loan comes", got, e.asked, len(e.ahead))
	}
}

// Nothing is asked for ahead by a host of which the next event is far away, nor while a
// refusal stands, nor for an event at a time that its caller states.
func TestAutoAsksAheadIfThatHelps(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 0)
	e.lends = 6
	for now = second; now < 20*second; now += second / 3 {
		take(k, now, 1)
	}
	if e.asked < 2 || len(e.ahead) != 0 {
		t.Errorf("with 3 events/s, %d asked and %+v ahead", e.asked, e.ahead)
	}
	for name, test := range map[string]struct {
		refused bool
		stated  time.Duration
		ahead   int
	}{
		"otherwise":        {ahead: 1},
		"a refusal stands": {refused: true},
		"in an hour":       {stated: time.Hour},
	} {
		bubble(t, func(t *testing.T) { // so that at is about now for the host, however slow it is
			at := stage.Now().Add(test.stated)
			_, e, k := grantedGroup(t, autoRule(1), &at, 1, sure, 6)
			if test.refused { // an event of 19
				e.answer = &stage.Outcome{RetryAfter: time.Minute}
				decideAt(k, at+1, 19, 0)
			}
			for range 6 {
				k.AllowN(at.Add(2*time.Millisecond).Time(), 1) // later than at once
			}
			if len(e.ahead) != test.ahead {
				t.Errorf("%s: %+v are asked for ahead", name, e.ahead)
			}
		})
	}
}

// An owner that does not answer is not asked again for each event.
func TestAutoAsksAheadInVain(t *testing.T) {
	var now stage.Instant
	_, e, k := grantedGroup(t, autoRule(1), &now, 1, sure, 6)
	e.set(errors.New("away"))
	now = 2 * second / 1000 // later than at once
	if got := take(k, now, 10); got != 6 || e.asked != 1 || len(e.ahead) != 1 {
		t.Errorf("of 10 events, %d pass, with %d asks and %d ahead", got, e.asked, len(e.ahead))
	}
	e.set(nil)
	if take(k, 2*second, 1); e.asked != 2 {
		t.Error("a second later, it does not ask")
	}
}

// The owner paid events before a host had a grant. Neither the grant nor the fallback shows that. A
// remote bucket that follows is charged with it.
func TestABucketThatFollowsAYoungGrantGivesNoSecondBurst(t *testing.T) {
	for _, algorithm := range []string{"redis", Even} {
		now := second
		clock := func() stage.Instant { return now }
		rule := autoRule(0.001)
		g := NewGroup(snapshot(t, rule), 1, WithRemote(Auto, newElsewhere(clock)), WithRemote("redis", newElsewhere(clock)), WithBackground(func(f func()) { f() }))
		k := g.For("k")
		if got := take(k, now, 18); got != 18 {
			t.Fatalf("%d of 18 tokens", got)
		}
		granted(t, g, now+1, g.Manual().Report(now+1), 0.5, 0)
		rule.Algorithm = algorithm
		now += 2
		g.Manual().Configure(now, snapshot(t, rule))
		if got := take(k, now, 20); got > 2 {
			t.Errorf("%s: %d tokens more of a burst of 20, of which 18 were used", algorithm, got)
		}
	}
}
