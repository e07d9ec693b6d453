// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"testing"
	"time"
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
