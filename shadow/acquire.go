// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// TryAcquireAt implements limiter.Acquirer. The shadow holds what it would
// have given for as long as the primary does. Slots stay with who gave them:
// when the mode changes, the one that begins to answer counts only those that
// it held as the shadow. So go through the modes that measure, for as long as
// slots are held; a jump from old to new lets at most both limits be held.
func (l *Limiter) TryAcquireAt(now limiter.Instant, n int) (limiter.Hold, bool) {
	mode := l.Mode()
	primary, shadow := l.roles(mode)
	held, ok := take(now, primary, n)
	if shadow == nil {
		return held, ok
	}
	return held.With(l.measure(now, mode, shadow, n, ok)), ok
}

// AcquireHold implements limiter.Acquirer. The shadow is asked once, when the
// primary's wait is over.
func (l *Limiter) AcquireHold(ctx context.Context, n int, options ...limiter.AcquireOption) (limiter.Hold, error) {
	if err := ctx.Err(); err != nil {
		return limiter.Hold{}, err // nobody is asked
	}
	mode := l.Mode()
	primary, shadow := l.roles(mode)
	var held limiter.Hold
	var err error
	if a, ok := primary.(limiter.Acquirer); ok {
		held, err = a.AcquireHold(ctx, n, options...)
	} else if shadow != nil {
		return limiter.Hold{}, l.WaitN(ctx, n)
	} else {
		err = wait(ctx, primary, n)
	}
	if shadow == nil {
		return held, err
	}
	return held.With(l.measure(limiter.Now(), mode, shadow, n, err == nil)), err
}

// measure asks the shadow for n slots, after the primary. What it gives is
// held if the primary gave them too.
func (l *Limiter) measure(now limiter.Instant, mode dynamicconfig.Mode, shadow limiter.Stepper, n int, primary bool) limiter.Hold {
	held, ok := take(now, shadow, n)
	l.compare(mode, primary, ok, n)
	if primary {
		return held
	}
	held.Release()
	return limiter.Hold{}
}

// take takes slots, or tokens if s limits a rate.
func take(now limiter.Instant, s limiter.Stepper, n int) (limiter.Hold, bool) {
	if a, ok := s.(limiter.Acquirer); ok {
		return a.TryAcquireAt(now, n)
	}
	return limiter.Hold{}, s.AllowAt(now, n)
}

// SetDemand tells both limiters.
func (l *Limiter) SetDemand(wants float64) {
	limiter.FromSteps(l.old).SetDemand(wants)
	limiter.FromSteps(l.new).SetDemand(wants)
}
