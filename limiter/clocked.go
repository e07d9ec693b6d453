// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// FromSteps gives s a clock and the ability to wait. What it returns is also
// a Stepper.
func FromSteps(s Stepper) Limiter { return clocked{s} }

// clocked is a Limiter around a Stepper.
type clocked struct{ Stepper }

var _ Limiter = clocked{}

func (c clocked) Allow() bool { return c.AllowAt(Now(), 1) }

func (c clocked) AllowN(t time.Time, n int) bool { return c.AllowAt(At(t), n) }

func (c clocked) Reserve() Reservation { return c.ReserveAt(Now(), 1, longestWait) }

func (c clocked) ReserveN(t time.Time, n int) Reservation {
	return c.ReserveAt(At(t), n, longestWait)
}

func (c clocked) Try() Reservation { return c.ReserveAt(Now(), 1, 0) }

func (c clocked) TryN(t time.Time, n int) Reservation { return c.ReserveAt(At(t), n, 0) }

func (c clocked) Wait(ctx context.Context) error { return c.WaitN(ctx, 1) }

func (c clocked) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := Now()
	switch level := c.Level(now); {
	case level.Refused != nil:
		return fmt.Errorf("limiter: wait for %d: %w", n, level.Refused)
	case n < 0:
		return fmt.Errorf("limiter: wait for %d: a cost cannot be negative", n)
	case level.Limit < rate.Inf && float64(n) > level.Burst:
		return fmt.Errorf("limiter: wait for %d exceeds the burst of %v on this host: %w", n, level.Burst, ErrNever)
	}
	longest := longestWait
	if deadline, ok := ctx.Deadline(); ok {
		longest = At(deadline).Sub(now)
	}
	r := c.ReserveAt(now, n, longest)
	if !r.OK() {
		if longest == longestWait {
			return fmt.Errorf("limiter: wait for %d: the limit is zero: %w", n, ErrNever)
		}
		return fmt.Errorf("limiter: wait for %d would exceed the context's deadline: %w", n, context.DeadlineExceeded)
	}
	if wait := r.DelayFrom(now.Time()); wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			r.Cancel()
			return err
		}
	}
	return nil
}

func (c clocked) TryAcquire(n int) (release func(), ok bool) {
	h, ok := c.TryAcquireAt(Now(), n)
	return h.releaser(), ok
}

// TryAcquireAt implements Acquirer, for any Stepper.
func (c clocked) TryAcquireAt(now Instant, n int) (Hold, bool) {
	if a, ok := c.Stepper.(Acquirer); ok {
		return a.TryAcquireAt(now, n)
	}
	return Hold{}, c.AllowAt(now, n)
}

func (c clocked) Acquire(ctx context.Context, n int, options ...AcquireOption) (release func(), err error) {
	h, err := c.AcquireHold(ctx, n, options...)
	return h.releaser(), err
}

// AcquireHold implements Acquirer, for any Stepper.
func (c clocked) AcquireHold(ctx context.Context, n int, options ...AcquireOption) (Hold, error) {
	if a, ok := c.Stepper.(Acquirer); ok {
		return a.AcquireHold(ctx, n, options...)
	}
	if w, ok := c.Stepper.(Waiter); ok {
		return Hold{}, w.WaitN(ctx, n)
	}
	return Hold{}, c.WaitN(ctx, n)
}

// SetDemand tells whoever reports it; a limiter that reports to nobody has no
// use for it.
func (c clocked) SetDemand(wants float64) {
	if d, ok := c.Stepper.(interface{ SetDemand(wants float64) }); ok {
		d.SetDemand(wants)
	}
}

func (c clocked) Charge(n int) { c.ChargeAt(Now(), n) }

func (c clocked) Limit() rate.Limit { return c.Level(Now()).Limit }

func (c clocked) Burst() int {
	if b := c.Level(Now()).Burst; b < math.MaxInt {
		return int(b)
	}
	return math.MaxInt
}

func (c clocked) Tokens() float64 { return c.Level(Now()).Tokens }

func (c clocked) TokensAt(t time.Time) float64 { return c.Level(At(t)).Tokens }
