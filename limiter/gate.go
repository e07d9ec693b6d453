// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync/atomic"
	"time"
)

// gate stands before what decides for a key whose rule is not enforced in
// full: of what is over the limit, it refuses a part and lets the rest through.
type gate struct {
	Stepper

	group   *Group
	refuses uint64 // of 2⁶⁴ events over the limit
	salt    uint64 // of the coin that decides which
	over    atomic.Uint64
}

var (
	_ Stepper   = (*gate)(nil)
	_ Explainer = (*gate)(nil)
	_ Waiter    = (*gate)(nil)
)

// gated is step behind a gate, if k's rule wants one.
func (g *Group) gated(k *Keyed, step Stepper) Stepper {
	rule := k.core.admitted.rule
	part := rule.Enforced()
	if rule.InFlight || part >= 1 {
		return step
	}
	return &gate{Stepper: step, group: g, refuses: uint64(part * (1 << 64)), salt: g.early.salt()}
}

// lets tells whether an event over the limit is let through. Its chance is a
// hash of how many there were, so that the same events meet the same fate.
func (g *gate) lets(n int) bool {
	if n < 0 {
		return false
	}
	if mixed(g.over.Add(1)+g.salt) < g.refuses {
		g.group.metrics.enforced.Inc(1)
		return false
	}
	g.group.metrics.soft.Inc(1)
	return true
}

// mixed is a hash of x.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// AllowAt implements Stepper.
func (g *gate) AllowAt(now Instant, n int) bool { return g.Stepper.AllowAt(now, n) || g.lets(n) }

// ReserveAt implements Stepper. What is let through waits for nothing.
func (g *gate) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	r := g.Stepper.ReserveAt(now, n, longest)
	if !r.OK() && g.lets(n) {
		return &letThrough{r}
	}
	return r
}

// DecideAt implements Explainer.
func (g *gate) DecideAt(ctx context.Context, now Instant, n int, longest time.Duration) Decision {
	return g.judge(Explain(ctx, g.Stepper, now, n, longest), n)
}

// judge is d, of an event of cost n, behind the gate.
func (g *gate) judge(d Decision, n int) Decision {
	if !d.OK && g.lets(n) {
		d.OK, d.Reason, d.RetryAfter = true, Soft, 0
	}
	return d
}

// WaitN implements Waiter.
func (g *gate) WaitN(ctx context.Context, n int) error {
	err := waitBy(ctx, g.Stepper, n)
	if refused(ctx, err) && g.lets(n) {
		return nil
	}
	return err
}

// waitBy waits in s's own way, if it has one.
func waitBy(ctx context.Context, s Stepper, n int) error {
	if w, ok := s.(Waiter); ok {
		return w.WaitN(ctx, n)
	}
	return clocked{s}.WaitN(ctx, n)
}

// letThrough is the Reservation of an event that is over the limit.
type letThrough struct {
	Reservation // that was refused
}

func (r *letThrough) OK() bool { return true }

func (r *letThrough) Delay() time.Duration { return 0 }

func (r *letThrough) DelayFrom(time.Time) time.Duration { return 0 }
