// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// changing is a context that changes the rules when it is first looked at.
type changing struct {
	context.Context
	change func()
}

func (c *changing) Err() error {
	if f := c.change; f != nil {
		c.change = nil
		f()
	}
	return c.Context.Err()
}

// The rule begins to limit slots just after Acquire has seen that it limits a rate.
func TestAcquireFollowsARuleThatComesToLimitSlots(t *testing.T) {
	slots := inFlightRule(2)
	slots.Algorithm = Even
	g := NewGroup(snapshot(t, alone(10, 10)), 1)
	k := g.For("k")
	k.Allow()
	release, err := k.Acquire(&changing{t.Context(), func() { g.Configure(snapshot(t, slots)) }}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := k.Tokens(); got != 1 {
		t.Errorf("%v of 2 slots are free, with one held", got)
	}
	release()
}

// A caller decided about a time to come. A refusal now says when the event would be OK by
// the clock.
func TestRetryAfterIsOfTheCallersTime(t *testing.T) {
	for _, debt := range []time.Duration{0, time.Second} {
		for _, longest := range []time.Duration{0, 5 * time.Second, 11 * time.Second} {
			bubble(t, func(t *testing.T) {
				rule := alone(1, 5)
				rule.MaxDebt = debt
				k := NewGroup(snapshot(t, rule), 1).For("k")
				if !k.AllowN(time.Now().Add(10*time.Second), 5) {
					t.Fatal("the bucket was full")
				}
				d := k.Decide(t.Context(), 3, longest)
				if d.OK {
					t.Fatalf("debt %v, longest %v: %+v", debt, longest, d)
				}
				time.Sleep(d.RetryAfter - 100*time.Millisecond)
				if d := k.Decide(t.Context(), 3, longest); d.OK {
					t.Errorf("debt %v, longest %v: it is OK sooner: %+v", debt, longest, d)
				}
				time.Sleep(100 * time.Millisecond)
				if again := k.Decide(t.Context(), 3, longest); !again.OK {
					t.Errorf("debt %v, longest %v: after %v: %+v", debt, longest, d.RetryAfter, again)
				}
			})
		}
	}
}

// A caller that only waits for its Estimate does not act on a refusal.
func TestWaitForARefusedEstimateFails(t *testing.T) {
	k := NewGroup(snapshot(t, alone(1, 5)), 1).For("k")
	if err := k.Take(t.Context(), 6, -1).Wait(t.Context()); !errors.Is(err, ErrNever) {
		t.Errorf("above the burst: %v", err)
	}
	if err := k.Take(t.Context(), 5, 0).Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := k.Take(t.Context(), 5, 0).Wait(t.Context()); err == nil {
		t.Error("a refused event may happen")
	}
}

// The caller left before a remote bucket answered, and waits with another context.
func TestWaitForAnEstimateWhoseCallerLeftFails(t *testing.T) {
	rule := alone(1, 5)
	rule.Algorithm = "exact"
	left, leave := context.WithCancel(t.Context())
	leave()
	e := NewGroup(snapshot(t, rule), 1, WithRemote("exact", newElsewhere(stage.Now))).For("k").Take(left, 1, -1)
	if e.OK() {
		t.Fatalf("it is OK: %+v", e.Decision())
	}
	if err := e.Wait(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("a refused event may happen: %v", err)
	}
	if err := e.Wait(left); !errors.Is(err, context.Canceled) {
		t.Errorf("by the context that ended: %v", err)
	}
}

// Whatever the reason, who is refused gets an error.
func TestEachRefusalIsAnErrorOfAWait(t *testing.T) {
	for r := range Reason(stage.Reasons) {
		l := FromStage(answersAll{Reason: r})
		if err := l.Wait(t.Context()); (err == nil) != r.OK() {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// answersAll is a stage that always answers the same, and that no limit is known of.
type answersAll stage.Answer

func (a answersAll) Take(context.Context, stage.Request) (stage.Verdict, stage.Receipt) {
	return stage.Verdict{Answer: stage.Answer(a)}, stage.Receipt{}
}

func (a answersAll) Allow(context.Context, stage.Instant) stage.Reason { return a.Reason }

func (answersAll) Settle(stage.Instant, stage.Receipt, int64) {}

func (answersAll) Cap(stage.Instant, float64) {}

func (answersAll) Level(stage.Instant) stage.Level { return stage.Level{Limit: 1, Burst: 1} }

func (answersAll) Open() (open bool, changed []<-chan struct{}) { return false, nil }
