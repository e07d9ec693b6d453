// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync"
	"time"
)

// Estimate is what an event is thought to cost, taken before it is known what
// it does cost: tokens of a language model, bytes, milliseconds of processor
// time. Settle says so afterwards.
//
//	e := group.For("llm:gpt").Take(ctx, 800, -1)
//	if !e.OK() {
//		return errTooManyRequests
//	}
//	defer e.Cancel() // unless it was settled
//	…
//	e.Settle(answer.TokensUsed)
//
// What is never settled nor cancelled stays taken as estimated. An Estimate is
// safe for concurrent use.
type Estimate struct {
	decision Decision
	key      *Keyed

	mu   sync.Mutex  // protects following fields
	n    int         // that was taken
	held Reservation // nil when there is nothing to do any more
}

// Take decides as Decide does, and takes n tokens if it is OK: what the event
// is thought to cost. An event that turns out to cost less gives the
// difference back, and one that costs more goes into debt.
func (k *Keyed) Take(ctx context.Context, n int, longest time.Duration) *Estimate {
	return k.TakeAt(ctx, Now(), n, longest)
}

// TakeAt is Take at now.
func (k *Keyed) TakeAt(ctx context.Context, now Instant, n int, longest time.Duration) *Estimate {
	d, held := holdBy(ctx, k.step(now), now, n, longest)
	e := &Estimate{decision: d, key: k, n: n, held: held}
	if !d.OK {
		e.held = nil
	}
	return e
}

// OK tells whether the event may happen, after Decision's Wait.
func (e *Estimate) OK() bool { return e.decision.OK }

// Decision is what was decided of the estimated cost.
func (e *Estimate) Decision() Decision { return e.decision }

// Settle says that the event did happen, and cost actual tokens, at least 0.
// Only the first call of Settle or Cancel does anything.
func (e *Estimate) Settle(actual int) { e.SettleAt(Now(), actual) }

// SettleAt is Settle at now.
func (e *Estimate) SettleAt(now Instant, actual int) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.held == nil {
		return
	}
	held := e.held
	e.held = nil
	if e.decision.Reason == Soft {
		return // nothing was taken
	}
	switch actual = max(actual, 0); {
	case actual > e.n:
		e.key.ChargeAt(now, actual-e.n)
	case actual == e.n:
	default:
		giveBack(held, now, e.n, actual, e.key)
	}
}

// Cancel says that the event did not happen: all is given back, and nothing is
// counted as usage.
func (e *Estimate) Cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.held != nil {
		e.held.Used(false)
		e.held = nil
	}
}

// giveBack has held, of n tokens, keep actual of them.
func giveBack(held Reservation, now Instant, n, actual int, key *Keyed) {
	if t, ok := held.(*ticket); ok {
		t.reduce(n - actual)
		return
	}
	key.ChargeAt(now, actual)
	held.Used(false)
}

// reduce gives n tokens back, and keeps the others.
func (r *ticket) reduce(n int) {
	n = min(n, r.n)
	if r.from == nil || n <= 0 {
		return
	}
	r.from.refund(r.taken, float64(n), n)
	r.n -= n
}

// holder is a Stepper that says why, and whose tokens can be given back.
type holder interface {
	holdAt(ctx context.Context, now Instant, n int, longest time.Duration) (Decision, Reservation)
}

// holdBy is Explain whose tokens can be given back.
func holdBy(ctx context.Context, s Stepper, now Instant, n int, longest time.Duration) (Decision, Reservation) {
	if longest < 0 {
		longest = longestWait
	}
	switch s := s.(type) {
	case holder:
		return s.holdAt(ctx, now, n, longest)
	case refusal, unlimited:
		return Explain(ctx, s, now, n, longest), &ticket{}
	}
	return holdBySteps(s, now, n, longest)
}

func (s *share) holdAt(_ context.Context, now Instant, n int, longest time.Duration) (Decision, Reservation) {
	r, v := s.ticket(now, n, s.decide(now, n, longest))
	return v.decision(s.Level(now), s.by()), r
}

func (f inFlight) holdAt(ctx context.Context, now Instant, n int, longest time.Duration) (Decision, Reservation) {
	return f.DecideAt(ctx, now, n, longest), &ticket{}
}

func (a *asked) holdAt(ctx context.Context, now Instant, n int, longest time.Duration) (Decision, Reservation) {
	v, left, by := a.take(ctx, now, n, longest)
	r, level := a.ticketOf(now, n, v, left, by)
	return v.decision(level, by), r
}
