// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// Limiter limits the events of one key. It has the methods of
// *rate.Limiter that take or show tokens, with the same meaning, so that a
// service swaps it in without edits; the limit itself comes from config.
//
// Most callers should use Allow, or Wait when the caller can be slowed down.
// Costs are whole tokens; a negative n is refused. All methods are safe for
// concurrent use, and none but Wait, WaitN and Acquire waits for its turn. (Of
// a key whose bucket is elsewhere, all wait for the answer: see Remote.)
type Limiter interface {
	// Allow is AllowN(now, 1).
	Allow() bool

	// AllowN tells whether n events may happen at t, and takes n tokens if so.
	AllowN(t time.Time, n int) bool

	// Reserve is ReserveN(now, 1).
	Reserve() Reservation

	// ReserveN takes n tokens at t, from the future if they are not there
	// yet. The caller waits for the Reservation's Delay before it acts.
	ReserveN(t time.Time, n int) Reservation

	// Try is TryN(now, 1).
	Try() Reservation

	// TryN is AllowN whose tokens can be given back: with Used(false) on
	// the Reservation, as if it never was.
	TryN(t time.Time, n int) Reservation

	// Wait is WaitN(ctx, 1).
	Wait(ctx context.Context) error

	// WaitN waits until n events may happen. It returns an error at once if
	// n exceeds Burst, or if the wait would outlast ctx's deadline, and
	// ctx's error when ctx ends; then no tokens are taken.
	WaitN(ctx context.Context, n int) error

	// Charge takes n tokens for what has happened already, allowed or not.
	// The bucket may go into debt: later events pay for it.
	Charge(n int)

	// TryAcquire takes n slots of what is in flight, if they are free and
	// nobody waits for them, until release is called. Only its first call
	// does anything; it is never nil. For a rule that limits a rate it is
	// AllowN, and release does nothing.
	TryAcquire(n int) (release func(), ok bool)

	// Acquire waits until n slots are free and nobody is before it: waiters
	// are served by Priority, and those of equal priority in order. One who
	// needs more slots than this host has now lets others pass. It returns
	// ErrNever at once if n exceeds the whole limit, ErrTooManyWaiters, and
	// ctx's error when ctx ends; then it holds nothing. For a rule that
	// limits a rate it is WaitN.
	Acquire(ctx context.Context, n int, options ...AcquireOption) (release func(), err error)

	// SetDemand states how many events/s, or slots, this host wants: reports
	// say so, instead of what is measured, until the next call. Measured
	// (or NaN) ends the statement. It does not change what is allowed now.
	SetDemand(wants float64)

	// Limit is the limit that this host applies now, in events/s or slots.
	Limit() rate.Limit

	// Burst is the most tokens that this host's bucket can hold, rounded down.
	Burst() int

	// Tokens is TokensAt(now).
	Tokens() float64

	// TokensAt is how many tokens there are at t; negative in debt.
	TokensAt(t time.Time) float64
}

// Reservation holds tokens that were taken, or is not OK. It is for one
// goroutine at a time.
type Reservation interface {
	// OK tells whether the tokens were taken.
	OK() bool

	// Delay is DelayFrom(now).
	Delay() time.Duration

	// DelayFrom is how long after t the holder must wait before it acts;
	// rate.InfDuration if not OK.
	DelayFrom(t time.Time) time.Duration

	// Cancel is CancelAt(now).
	Cancel()

	// CancelAt says that the holder will not act. Tokens are returned as
	// far as nobody has reserved on top of them; when the time to act has
	// passed nothing is.
	CancelAt(t time.Time)

	// Used says what became of the event. An event that did not happen
	// returns all its tokens and is not counted as usage. Call it at most
	// once, and not after Cancel. Not calling it means true.
	Used(used bool)
}

// Stepper is a limiter as plain steps in time, without a clock or waiting.
// FromSteps makes it a Limiter. Two Steppers can share one clock reading,
// and the simulator drives them on virtual time.
type Stepper interface {
	// AllowAt tells whether n events may happen now, and takes n tokens if so.
	AllowAt(now Instant, n int) bool

	// ReserveAt takes n tokens if they are there within longest.
	ReserveAt(now Instant, n int, longest time.Duration) Reservation

	// ChargeAt takes n tokens, into debt if need be.
	ChargeAt(now Instant, n int)

	// CapAt lowers the tokens to at most tokens, without counting usage. A
	// limiter that takes over from another starts no richer than that was.
	CapAt(now Instant, tokens float64)

	// Level is what the limiter applies now.
	Level(now Instant) Level
}

// Level is what a limiter applies at an instant.
type Level struct {
	// Limit is in events/s; Burst and Tokens in tokens. Tokens is negative
	// in debt and infinite when nothing is limited. If slots in flight are
	// limited, Limit and Burst are how many this host may hold and Tokens
	// the free ones, negative after a cut; Refused is ErrInFlight.
	Limit         rate.Limit
	Burst, Tokens float64

	// Refused, when not nil, is why nothing at all is allowed.
	Refused error
}
