// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

// gate stands before what decides for a key whose rule is not enforced in
// full, or when somebody listens. Of what is over the limit, it refuses a part
// and lets the rest through; and it tells of each decision.
type gate struct {
	Stepper

	key     string
	rule    *dynamicconfig.Rule
	group   *Group
	refuses uint64 // of 2⁶⁴ events over the limit
	salt    uint64 // of the coin that decides which
	over    atomic.Uint64
}

// refusesAll is a gate that is closed to all that is over the limit.
const refusesAll = 1<<64 - 1

var (
	_ Stepper   = (*gate)(nil)
	_ Explainer = (*gate)(nil)
	_ Waiter    = (*gate)(nil)
	_ reserver  = (*gate)(nil)
)

// gated is step behind a gate, if k's rule or a listener wants one.
func (g *Group) gated(k *Keyed, step Stepper) Stepper {
	rule := k.core.admitted.rule
	part := rule.Enforced()
	if rule.InFlight || part >= 1 && g.events == nil {
		return step
	}
	if s, ok := step.(*share); ok {
		step = ruled{s}
	}
	gate := &gate{Stepper: step, key: k.key, rule: rule, group: g, refuses: refusesAll}
	if part < 1 {
		gate.refuses, gate.salt = uint64(part*(1<<64)), g.early.salt()
	}
	return gate
}

// judge lets through what is over the limit and not to be refused, and tells.
func (g *gate) judge(now Instant, n int, v verdict) verdict {
	if !v.ok() && g.lets(n) {
		v = verdict{reason: Soft}
	}
	if g.group.events != nil {
		g.group.events.tell(eventOf(now, g.key, g.rule.Key, n, v.reason, v.wait))
	}
	return v
}

// lets tells whether an event over the limit is let through. Its chance is a
// hash of how many there were, so that the same events meet the same fate.
func (g *gate) lets(n int) bool {
	if n < 0 || g.refuses == refusesAll {
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

func (g *gate) judgeAt(ctx context.Context, now Instant, n int, longest time.Duration) verdict {
	if r, ok := g.Stepper.(reserver); ok {
		return g.judge(now, n, r.judgeAt(ctx, now, n, longest))
	}
	d := Explain(ctx, g.Stepper, now, n, longest)
	return g.judge(now, n, verdict{d.Reason, d.Wait, d.RetryAfter})
}

func (g *gate) reserveAt(ctx context.Context, now Instant, n int, longest time.Duration) (Reservation, verdict) {
	var held Reservation
	var v verdict
	if r, ok := g.Stepper.(reserver); ok {
		held, v = r.reserveAt(ctx, now, n, longest)
	} else {
		var d Decision
		d, held = holdBy(ctx, g.Stepper, now, n, longest)
		v = verdict{d.Reason, d.Wait, d.RetryAfter}
	}
	v = g.judge(now, n, v)
	if v.reason == Soft {
		held = &letThrough{held}
	}
	return held, v
}

func (g *gate) most() time.Duration {
	if r, ok := g.Stepper.(reserver); ok {
		return r.most()
	}
	return longestWait
}

// AllowAt implements Stepper.
func (g *gate) AllowAt(now Instant, n int) bool {
	return g.judgeAt(context.Background(), now, n, 0).ok()
}

// ReserveAt implements Stepper. What is let through waits for nothing.
func (g *gate) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	held, _ := g.reserveAt(context.Background(), now, n, longest)
	return held
}

// DecideAt implements Explainer.
func (g *gate) DecideAt(ctx context.Context, now Instant, n int, longest time.Duration) Decision {
	return g.judged(now, n, Explain(ctx, g.Stepper, now, n, longest))
}

func (g *gate) holdAt(ctx context.Context, now Instant, n int, longest time.Duration) (Decision, Reservation) {
	d, held := holdBy(ctx, g.Stepper, now, n, longest)
	return g.judged(now, n, d), held
}

// judged is d behind the gate.
func (g *gate) judged(now Instant, n int, d Decision) Decision {
	if v := g.judge(now, n, verdict{d.Reason, d.Wait, d.RetryAfter}); v.reason == Soft {
		d.OK, d.Reason, d.RetryAfter = true, Soft, 0
	}
	return d
}

// WaitN implements Waiter.
func (g *gate) WaitN(ctx context.Context, n int) error {
	w, ok := g.Stepper.(Waiter)
	if _, knows := g.Stepper.(reserver); knows || !ok {
		return waitFor(ctx, g, n)
	}
	began := Now()
	err := w.WaitN(ctx, n) // what it does with a shadow only it knows
	if err != nil && !refused(ctx, err) {
		return err // the caller has gone
	}
	v := verdict{reason: reasonOf(err)}
	if now := Now(); now.Sub(began) > time.Millisecond {
		v.wait = now.Sub(began)
	}
	if g.judge(began, n, v).ok() {
		return nil
	}
	return err
}

// letThrough is the Reservation of an event that is over the limit.
type letThrough struct {
	Reservation // that was refused
}

func (r *letThrough) OK() bool { return true }

func (r *letThrough) Delay() time.Duration { return 0 }

func (r *letThrough) DelayFrom(time.Time) time.Duration { return 0 }
