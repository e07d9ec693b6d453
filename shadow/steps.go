// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter"
)

// AllowAt implements limiter.Stepper.
func (l *Limiter) AllowAt(now limiter.Instant, n int) bool {
	mode := l.Mode()
	primary, shadow := l.roles(mode)
	ok := primary.AllowAt(now, n)
	l.spent(mode, now, n, ok)
	if later, slow := l.later(shadow); slow {
		l.measureLater(later, mode, now, n, 0, ok)
	} else if shadow != nil {
		also := shadow.AllowAt(now, n)
		switch i := answer(mode, ok, also); { // what compare does, without a call
		case n != 1:
			l.compare(mode, ok, also, n)
		case !l.counters.add(i, 1):
			l.counters.addOwn(i, 1)
		}
	}
	return ok
}

// DecideAt implements limiter.Explainer: the primary says why.
func (l *Limiter) DecideAt(ctx context.Context, now limiter.Instant, n int, longest time.Duration) limiter.Decision {
	mode := l.Mode()
	primary, shadow := l.roles(mode)
	d := limiter.Explain(ctx, primary, now, n, longest)
	l.spent(mode, now, n, d.OK)
	if later, slow := l.later(shadow); slow {
		l.measureLater(later, mode, now, n, longest, d.OK)
	} else if shadow != nil {
		l.compare(mode, d.OK, limiter.Explain(ctx, shadow, now, n, longest).OK, n)
	}
	return d
}

// ReserveAt implements limiter.Stepper. What becomes of the shadow's tokens
// is as in reservation.
func (l *Limiter) ReserveAt(now limiter.Instant, n int, longest time.Duration) limiter.Reservation {
	mode := l.Mode()
	primary, shadow := l.roles(mode)
	r := primary.ReserveAt(now, n, longest)
	l.spent(mode, now, n, r.OK())
	if shadow == nil {
		return r
	}
	if later, slow := l.later(shadow); slow {
		return &reservation{Reservation: r, shadow: l.measureLater(later, mode, now, n, longest, r.OK())}
	}
	s := shadow.ReserveAt(now, n, longest)
	l.compare(mode, r.OK(), s.OK(), n)
	return &reservation{Reservation: r, shadow: s}
}

// ChargeAt implements limiter.Stepper; the shadow is charged too.
func (l *Limiter) ChargeAt(now limiter.Instant, n int) {
	mode := l.Mode()
	primary, shadow := l.roles(mode)
	primary.ChargeAt(now, n)
	l.spent(mode, now, n, true)
	if shadow != nil {
		shadow.ChargeAt(now, n)
	}
}

// CapAt implements limiter.Stepper; it caps both limiters in every mode.
func (l *Limiter) CapAt(now limiter.Instant, tokens float64) {
	l.old.CapAt(now, tokens)
	l.new.CapAt(now, tokens)
}

// Level implements limiter.Stepper; it is the primary's.
func (l *Limiter) Level(now limiter.Instant) limiter.Level {
	primary, _ := l.roles(l.Mode())
	return primary.Level(now)
}

// Wait is WaitN(ctx, 1).
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN waits with the primary. The shadow's wait begins with it and ends
// with it: what the shadow would have waited longer for is given back, and
// counts as rejected if the primary allowed it.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err // nobody is asked
	}
	mode := l.Mode()
	primary, shadow := l.roles(mode)
	if shadow == nil {
		err := wait(ctx, primary, n)
		l.spent(mode, limiter.Now(), n, err == nil)
		return err
	}
	now, longest := limiter.Now(), time.Duration(rate.InfDuration)
	if deadline, ok := ctx.Deadline(); ok {
		longest = limiter.At(deadline).Sub(now)
	}
	if later, slow := l.later(shadow); slow {
		err := l.waitBeside(ctx, primary, later, mode, now, n, longest)
		l.spent(mode, limiter.Now(), n, err == nil)
		return err
	}
	s := shadow.ReserveAt(now, n, longest)
	err := wait(ctx, primary, n)
	then := limiter.Now()
	l.spent(mode, then, n, err == nil)
	ready := s.OK() && s.DelayFrom(then.Time()) == 0
	if s.OK() && !ready {
		s.CancelAt(then.Time())
		if err == nil { // as of now, so that its usage shows the rejection
			ready = shadow.AllowAt(then, n)
		}
	}
	l.compare(mode, err == nil, ready, n)
	return err
}

// wait waits in s's own way, if it has one.
func wait(ctx context.Context, s limiter.Stepper, n int) error {
	if w, ok := s.(limiter.Waiter); ok {
		return w.WaitN(ctx, n)
	}
	return limiter.FromSteps(s).WaitN(ctx, n)
}

// reservation is a pair of reservations; the primary's is shown.
//
// The shadow's fate follows the primary's, but for one case: when the primary
// refused, the event does not happen, yet the shadow counts it as used. So
// its rate of acceptance can be seen, and not the primary's once more.
type reservation struct {
	limiter.Reservation
	shadow limiter.Reservation
}

func (r *reservation) Used(used bool) {
	r.Reservation.Used(used)
	r.shadow.Used(used || !r.OK())
}

func (r *reservation) Cancel() { r.CancelAt(limiter.Now().Time()) }

func (r *reservation) CancelAt(t time.Time) {
	if !r.OK() {
		return
	}
	r.Reservation.CancelAt(t)
	r.shadow.CancelAt(t)
}
