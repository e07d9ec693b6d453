// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
)

// Keyed is the Limiter of one key of a Group. It stays valid for ever: it
// follows config changes, and when its key was forgotten because nobody used
// it, the next use brings it back.
//
// It holds no state of its own but points to what decides now: straight to
// the share in the usual case, else to a Stepper. A key that nobody used for
// some time gives its share up and sleeps: it keeps its place until it is used
// again, or forgotten.
type Keyed struct {
	// share is set before other is cleared and the other way round, so that
	// a key with a place in the table always has one of them.
	share atomic.Pointer[share]
	other atomic.Pointer[other]

	group *Group
	key   string
	core  *core // protected by group.mu; nil while the key is asleep or not live
}

// other decides when it is not one share alone.
type other struct {
	step Stepper
	// forward is step if that is another Keyed of the same key, which was
	// live when this was set.
	forward *Keyed
	// asleep is not nil if nothing decides, because the key sleeps: the rule
	// that it has its place under. There is one such other for all of them.
	asleep *admitted
	// touched tells that it was used since the last report. It is written
	// only when it changes.
	touched atomic.Bool
}

var (
	_ Limiter = (*Keyed)(nil)
	_ Stepper = (*Keyed)(nil)

	_ Acquirer = (*Keyed)(nil)
)

// Key is the full key.
func (k *Keyed) Key() string { return k.key }

// Refused tells why nothing at all is allowed for this key: ErrUnmatched,
// ErrTooManyKeys, ErrInvalidKey; ErrInFlight if only Acquire and TryAcquire
// are; or nil.
func (k *Keyed) Refused() error { return k.Level(Now()).Refused }

// step is what decides now.
func (k *Keyed) step(now Instant) Stepper {
	if s := k.share.Load(); s != nil {
		return s
	}
	if o := k.other.Load(); o != nil {
		if o.asleep != nil {
			return k.group.attach(now, k)
		}
		if !o.touched.Load() {
			o.touched.Store(true)
		}
		if o.forward == nil {
			return o.step
		}
		if s := o.forward.share.Load(); s != nil {
			return s
		}
		if o := o.forward.other.Load(); o != nil && o.forward == nil && o.asleep == nil {
			return o.step
		}
		return k.group.attach(now, k) // it is not live: look again
	}
	// Both are seen empty for a moment while one replaces the other.
	if s := k.share.Load(); s != nil {
		return s
	}
	return k.group.attach(now, k)
}

// Allow implements Limiter.
func (k *Keyed) Allow() bool {
	if s := k.share.Load(); s != nil {
		return s.AllowAt(Now(), 1)
	}
	return k.AllowAt(Now(), 1)
}

// AllowN implements Limiter.
func (k *Keyed) AllowN(t time.Time, n int) bool { return k.AllowAt(At(t), n) }

// Reserve implements Limiter.
func (k *Keyed) Reserve() Reservation { return k.ReserveAt(Now(), 1, longestWait) }

// ReserveN implements Limiter.
func (k *Keyed) ReserveN(t time.Time, n int) Reservation {
	return k.ReserveAt(At(t), n, longestWait)
}

// Try implements Limiter.
func (k *Keyed) Try() Reservation { return k.ReserveAt(Now(), 1, 0) }

// TryN implements Limiter.
func (k *Keyed) TryN(t time.Time, n int) Reservation { return k.ReserveAt(At(t), n, 0) }

// Wait implements Limiter.
func (k *Keyed) Wait(ctx context.Context) error { return k.WaitN(ctx, 1) }

// WaitN implements Limiter.
func (k *Keyed) WaitN(ctx context.Context, n int) error {
	if w, ok := k.step(Now()).(Waiter); ok {
		return w.WaitN(ctx, n)
	}
	return clocked{k}.WaitN(ctx, n)
}

// Waiter is a Stepper with a way of its own to wait.
type Waiter interface {
	WaitN(ctx context.Context, n int) error
}

// TryAcquire implements Limiter.
func (k *Keyed) TryAcquire(n int) (release func(), ok bool) {
	if o := k.other.Load(); o != nil && n > 0 && n <= maxCost {
		if f, ok := o.step.(inFlight); ok {
			if h, ok := f.slots.quick(int64(n)); ok { // without a look at the clock
				f.allowed.Add(int64(n))
				return h.Release, true
			}
		}
	}
	h, ok := k.TryAcquireAt(Now(), n)
	return h.releaser(), ok
}

// TryAcquireAt implements Acquirer.
func (k *Keyed) TryAcquireAt(now Instant, n int) (Hold, bool) {
	return clocked{k.step(now)}.TryAcquireAt(now, n)
}

// Acquire implements Limiter.
func (k *Keyed) Acquire(ctx context.Context, n int, options ...AcquireOption) (release func(), err error) {
	h, err := k.AcquireHold(ctx, n, options...)
	return h.releaser(), err
}

// AcquireHold implements Acquirer.
func (k *Keyed) AcquireHold(ctx context.Context, n int, options ...AcquireOption) (Hold, error) {
	return clocked{k.step(Now())}.AcquireHold(ctx, n, options...)
}

// Charge implements Limiter.
func (k *Keyed) Charge(n int) { k.ChargeAt(Now(), n) }

// Limit implements Limiter.
func (k *Keyed) Limit() rate.Limit { return clocked{k}.Limit() }

// Burst implements Limiter.
func (k *Keyed) Burst() int { return clocked{k}.Burst() }

// Tokens implements Limiter.
func (k *Keyed) Tokens() float64 { return clocked{k}.Tokens() }

// TokensAt implements Limiter.
func (k *Keyed) TokensAt(t time.Time) float64 { return clocked{k}.TokensAt(t) }

// AllowAt implements Stepper.
func (k *Keyed) AllowAt(now Instant, n int) bool { return k.step(now).AllowAt(now, n) }

// ReserveAt implements Stepper.
func (k *Keyed) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	return k.step(now).ReserveAt(now, n, longest)
}

// ChargeAt implements Stepper.
func (k *Keyed) ChargeAt(now Instant, n int) { k.step(now).ChargeAt(now, n) }

// CapAt implements Stepper.
func (k *Keyed) CapAt(now Instant, tokens float64) { k.step(now).CapAt(now, tokens) }

// Level implements Stepper.
func (k *Keyed) Level(now Instant) Level { return k.step(now).Level(now) }

// Unlimited allows everything and counts nothing.
var Unlimited Stepper = unlimited{}

type unlimited struct{}

func (unlimited) AllowAt(_ Instant, n int) bool { return n >= 0 }

func (unlimited) ReserveAt(now Instant, n int, _ time.Duration) Reservation {
	if n < 0 {
		return &ticket{}
	}
	return &ticket{from: unlimited{}, taken: now, act: now}
}

func (unlimited) ChargeAt(Instant, int)        {}
func (unlimited) CapAt(Instant, float64)       {}
func (unlimited) debt(Instant) time.Duration   { return 0 }
func (unlimited) refund(Instant, float64, int) {}
func (unlimited) Level(Instant) Level          { return Level{Limit: rate.Inf, Burst: inf, Tokens: inf} }

// refusal allows nothing and says why.
type refusal struct {
	err       error
	key, rule string
	events    *events
}

func (r refusal) tell(now Instant, n int) {
	if r.events != nil {
		r.events.tell(eventOf(now, r.key, r.rule, n, reasonOf(r.err), 0))
	}
}

func (r refusal) AllowAt(now Instant, n int) bool {
	r.tell(now, n)
	return false
}

func (r refusal) ReserveAt(now Instant, n int, _ time.Duration) Reservation {
	r.tell(now, n)
	return &ticket{}
}

// WaitN implements Waiter.
func (r refusal) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.tell(Now(), n)
	return fmt.Errorf("limiter: wait for %d: %w", n, r.err)
}

func (refusal) ChargeAt(Instant, int)  {}
func (refusal) CapAt(Instant, float64) {}
func (r refusal) Level(Instant) Level  { return Level{Refused: r.err} }

// core is what a live key is made of.
type core struct {
	admitted *admitted
	shares   []*share // one, or the old and the new of a migration
	special  *special // nil when a share alone decides, and says no more than a limit
	alias    bool     // of a shared rule: decides through another Keyed
	used     Instant  // that other shares than these, or none, found
}

// special is what most keys do without.
type special struct {
	steps    []Stepper // what decides for each share alone
	migrator Migrator  // nil unless two
}

// step is what decides for share i alone.
func (c *core) step(i int) Stepper {
	if c.special == nil {
		return c.shares[i]
	}
	return c.special.steps[i]
}

// inFallback tells whether share i is ruled by its fallback.
func (c *core) inFallback(i int) bool {
	s := c.shares[i]
	if c.special != nil {
		switch a := c.special.steps[i].(type) {
		case *asked:
			return a.failing.Load()
		case *auto:
			return s.fallen.Load() || a.asks.Load() && a.failing.Load()
		}
	}
	return s.remote && !s.granted
}

// Migrator answers with one of two limiters and may measure the other.
type Migrator interface {
	Stepper

	// SetMode changes which limiter answers, and whether the other is
	// measured. The one that begins to answer has no more tokens than the
	// one that ends.
	SetMode(now Instant, mode dynamicconfig.Mode)
}
