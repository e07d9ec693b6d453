// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// A caller that leaves while the remote bucket answers counts once.
func TestMetricsCountACallerThatLeavesOnce(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	ctx, leave := context.WithCancel(t.Context())
	e := newElsewhere(func() stage.Instant { return 0 })
	g := NewGroup(snapshot(t, exactKey("k")), 1, WithRemote("exact", e), WithScope(scope), WithBackground(func(f func()) { f() }))
	e.delayed = func() { e.delayed = nil; leave() }
	if v, _, _ := decide(ctx, keyOf(g.For("k")), 0, 1, 0, stage.Final); v.Reason != stage.Canceled {
		t.Fatalf("decided %+v", v)
	}
	g.Manual().Report(second)
	if got := counted(scope); got["limiter.rejected/k/canceled"] != 1 || got["limiter.rejected/k/limited"] != 0 || got["limiter.allowed/k/"] != 0 {
		t.Errorf("counted %v", got)
	}
}

// An owner grants an event after its key has changed to another algorithm.
func TestMetricsCountAnEventThatIsGrantedLate(t *testing.T) {
	for _, to := range []string{"elastic", "even"} {
		for _, granting := range []bool{false, true} {
			now := second
			scope := tally.NewTestScope("", nil)
			e := newElsewhere(func() stage.Instant { return now })
			g := NewGroup(snapshot(t, autoRule(100)), 10, WithRemote(Auto, e), WithScope(scope), WithBackground(func(f func()) { f() }))
			k := g.For("k")
			allowAt(k, now, 1)
			if granting {
				granted(t, g, now+1, g.Manual().Report(now+1), sure, 0)
			}
			e.delayed = func() {
				e.delayed = nil
				rule := autoRule(100)
				rule.Algorithm = to
				g.Manual().Configure(now, snapshot(t, rule))
			}
			if !allowAt(k, now+1, 1) {
				t.Fatal("refused")
			}
			g.Manual().Report(now + second)
			allowed := int64(2 + take(k, now+second, 10))
			g.Manual().Report(now + 2*second)
			s := only(t, g, now+2*second, "k")
			if got := counted(scope); got["limiter.allowed/k/"] != allowed || got["limiter.rejected/k/limited"] != 12-allowed || s.Allowed != allowed || s.Rejected != 12-allowed {
				t.Errorf("to %s, with a grant %v: counted %v of %d, shows %+v", to, granting, got, allowed, s)
			}
		}
	}
}

// An event that costs more than any may is no demand, however long its caller would wait: so it
// takes nothing back from what was refused because of the limit. The host shows it as rejected.
func TestAWaitForMoreThanAnyEventMayCostIsNoDemand(t *testing.T) {
	now := second
	e := newElsewhere(func() stage.Instant { return now })
	e.answer = &stage.Outcome{}
	g := NewGroup(snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 10, Burst: 10, Algorithm: Auto}), 1, WithRemote(Auto, e), WithBackground(func(f func()) { f() }))
	l := g.For("k")
	takeAt(l, now, 1, 0)
	now += second
	granted(t, g, now, g.Manual().Report(now), 0.5, 0)
	before := only(t, g, now, "k")
	for range 3 {
		if d := reserveAt(l, now, 50, time.Minute); d.Reason != TooCostly {
			t.Fatalf("50 tokens: %v", d.Reason)
		}
	}
	if after := only(t, g, now, "k"); after.Rejected != before.Rejected+3*50 || after.Allowed != before.Allowed {
		t.Errorf("%+v, before %+v", after, before)
	}
	for _, b := range g.Manual().Report(now + second) {
		if b.Usage.Rejected[0] != 0 {
			t.Errorf("the owner hears of %d", b.Usage.Rejected[0])
		}
	}
}

// Under a limit of zero, a debt that is allowed elsewhere does not make an event cost too much.
func TestALimitOfZeroIsReachedBesideADebt(t *testing.T) {
	for _, algorithm := range []string{"even", "elastic", "request-weighted"} {
		g := NewGroup(snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 0, MaxDebt: 10 * time.Second, Algorithm: algorithm}), 1)
		if d := decideAt(g.For("k"), second, 1, 0); d.Reason != Limited || d.RetryAfter != 0 {
			t.Errorf("%s: %+v", algorithm, d)
		}
	}
}

// Under a limit of zero, the host of an auto key says of each event that the limit is reached, with
// and without a grant, and asks nobody.
func TestALimitOfZeroIsReachedWhateverAnEventCosts(t *testing.T) {
	now := second
	scope, e := tally.NewTestScope("", nil), newElsewhere(func() stage.Instant { return now })
	g := NewGroup(snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 0, Algorithm: Auto}), 1, WithRemote(Auto, e), WithScope(scope), WithBackground(func(f func()) { f() }))
	l := g.For("k")
	take(l, now, 5)
	now += second
	granted(t, g, now, g.Manual().Report(now), 0.5, 0)
	take(l, now, 5)
	now += second
	g.Manual().Report(now)
	if got := counted(scope); got["limiter.rejected/k/too-costly"] != 0 || got["limiter.rejected/k/limited"] != 10 || e.asked != 0 {
		t.Errorf("counted %v, asked %d times", got, e.asked)
	}
}
