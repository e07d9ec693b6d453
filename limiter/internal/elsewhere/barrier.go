// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"context"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/stage"
)

// barrier holds asks back until the remote bucket has answered the charges that were in the Outbox
// when the barrier was set.
type barrier struct {
	until   stage.Instant           // an attempt that fails at this time or later lifts the barrier
	attempt atomic.Pointer[attempt] // the one under way, or the next one
}

// attempt is one attempt to send the charges.
type attempt struct {
	ended chan struct{}
	err   error // set before ended is closed
}

// SetBarrier has asks wait for the charges that were added until now. If an attempt to send them
// fails at until or later, asks do not wait any more.
func (o *Outbox) SetBarrier(until stage.Instant) {
	b := &barrier{until: until}
	b.attempt.Store(&attempt{ended: make(chan struct{})})
	if before := o.barrier.Swap(b); before != nil {
		before.endAttempt(nil)
	}
}

// HasBarrier reports whether asks wait for charges.
func (o *Outbox) HasBarrier() bool { return o.barrier.Load() != nil }

// AwaitBarrier waits until the remote bucket has answered the charges that asks wait for, or until
// ctx ends. If no other caller is sending, it calls send, which sends the charges and then calls End.
// The error is ctx's, or that of an attempt without an answer.
func (o *Outbox) AwaitBarrier(ctx context.Context, send func()) error {
	for b := o.barrier.Load(); b != nil; b = o.barrier.Load() {
		a := b.attempt.Load() // before Begin: if another caller has begun, its End ends this one, or has ended it
		if o.barrier.Load() != b {
			continue // b was lifted meanwhile: no sender would end the attempt that was loaded
		}
		if ctx.Err() == nil && o.Begin() {
			send()
		}
		if err := a.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lift lifts b, which may be nil: its charges are answered.
func (o *Outbox) lift(b *barrier) {
	if b != nil && o.barrier.CompareAndSwap(b, nil) {
		b.endAttempt(nil)
	}
}

// endAttempt wakes the asks that wait for the current attempt, and begins another one.
func (b *barrier) endAttempt(err error) {
	a := b.attempt.Swap(&attempt{ended: make(chan struct{})})
	a.err = err
	close(a.ended)
}

func (a *attempt) wait(ctx context.Context) error {
	select {
	case <-a.ended:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
