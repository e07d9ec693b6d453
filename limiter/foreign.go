// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math"
	"time"
)

// Steps returns l itself if it is a Stepper, else a Stepper that calls it.
func Steps(l Limiter) Stepper {
	if s, ok := l.(Stepper); ok {
		return s
	}
	return foreign{l}
}

// foreign makes a Stepper of anybody's Limiter.
type foreign struct{ l Limiter }

func (f foreign) AllowAt(now Instant, n int) bool { return f.l.AllowN(now.Time(), n) }

func (f foreign) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	t := now.Time()
	if longest <= 0 {
		return f.l.TryN(t, n)
	}
	r := f.l.ReserveN(t, n)
	if r.OK() && r.DelayFrom(t) > longest {
		r.CancelAt(t)
		return &ticket{}
	}
	return r
}

// TryAcquireAt implements Acquirer.
func (f foreign) TryAcquireAt(_ Instant, n int) (Hold, bool) {
	release, ok := f.l.TryAcquire(n)
	return holdOf(release, ok), ok
}

// AcquireHold implements Acquirer.
func (f foreign) AcquireHold(ctx context.Context, n int, options ...AcquireOption) (Hold, error) {
	release, err := f.l.Acquire(ctx, n, options...)
	return holdOf(release, err == nil), err
}

// SetDemand passes it on.
func (f foreign) SetDemand(wants float64) { f.l.SetDemand(wants) }

func (f foreign) ChargeAt(_ Instant, n int) { f.l.Charge(n) }

// CapAt takes what is too much: a Limiter has no other way to lose tokens.
func (f foreign) CapAt(now Instant, tokens float64) {
	excess := f.l.TokensAt(now.Time()) - tokens
	if excess > 0 && excess < math.MaxInt32 && !f.l.AllowN(now.Time(), int(math.Ceil(excess))) {
		f.l.AllowN(now.Time(), int(excess))
	}
}

func (f foreign) Level(now Instant) Level {
	return Level{Limit: f.l.Limit(), Burst: float64(f.l.Burst()), Tokens: f.l.TokensAt(now.Time())}
}
