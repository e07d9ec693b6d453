// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/stage"
)

// Limiter limits the events of one key. It has the methods of *rate.Limiter
// that take or show tokens, with the same meaning; the limit itself comes from
// the rules of its Group. Get one from a Node's or a Group's For, or from FromRate,
// FromStage or NewBucket.
//
// A Limiter stays valid for ever. It follows config changes, and when its key
// was forgotten because no caller used it, the next use brings it back. The zero
// Limiter refuses everything.
//
// Most callers should use Allow, or Wait when the caller can be slowed down.
// Costs are whole tokens; a negative cost is refused. All methods are safe for
// concurrent use. Only Wait, WaitN and Acquire wait, unless the rule's
// algorithm asks elsewhere for the event: then those that take tokens wait for
// that answer.
type Limiter keys.Key

// keyOf is what decides for l's key.
func keyOf(l *Limiter) *keys.Key { return (*keys.Key)(l) }

// Key is the full key; empty if the Limiter is no Group's.
func (l *Limiter) Key() string { return keyOf(l).Name() }

// Allow is AllowN(now, 1).
//
// Under Auto, it asks the key's owner for what this host's part does not cover, and
// waits for the answer: for the rule's ask_timeout, or twice as long if it shares a
// call with others. The asks of a host are bounded: see docs/config.md. Beyond the
// bounds, Allow does not wait, and this host's part decides.
func (l *Limiter) Allow() bool {
	if r := keyOf(l).Plain(); r != nil {
		return r.TakeOne(stage.Now())
	}
	return allow(context.Background(), keyOf(l), stage.Now()).OK()
}

// AllowN reports whether n events may happen at t, and takes n tokens if so. If an earlier
// call had a later t, that t counts. So after a call with a t in the future, the bucket does
// not fill until then. Under
// Auto, it asks the key's owner as Allow does, if t is within the rule's ask_timeout of
// the clock. Without a grant, and under algorithms that ask for each event, it asks
// whatever t is, because only the remote bucket can decide.
func (l *Limiter) AllowN(t time.Time, n int) bool {
	v, _, _ := decide(remote.Timed, keyOf(l), stage.At(t), int64(n), 0, stage.Final)
	return v.OK()
}

// Reserve is ReserveN(now, 1).
func (l *Limiter) Reserve() *Reservation {
	return &Reservation{reserve(context.Background(), keyOf(l), stage.Now(), 1, stage.Forever)}
}

// ReserveN takes n tokens at t, from the future if they are not there yet. The
// caller waits for the Reservation's Delay before it acts. It asks the key's owner
// where AllowN does, unless the Delay is short anyway.
func (l *Limiter) ReserveN(t time.Time, n int) *Reservation {
	return &Reservation{reserve(remote.Timed, keyOf(l), stage.At(t), int64(n), stage.Forever)}
}

// Wait is WaitN(ctx, 1).
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN waits until n events may happen. It returns an error at once
//
//   - if n exceeds this host's Burst (ErrNever) or the rule's max_cost (ErrNever);
//   - if the wait would be longer than the rule's max_wait, the debt deeper than its max_debt, or
//     this host has no part of the limit now (ErrTooLong);
//   - if the wait would outlast ctx's deadline. As with *rate.Limiter, the caller gets
//     the error before the deadline. Here errors.Is finds that it is context.DeadlineExceeded;
//   - if no wait is known to help (ErrFailed, ErrDropped), or if the key has no limiter
//     (ErrUnmatched, ErrTooManyKeys, ErrInvalidKey) or slots (ErrInFlight).
//
// When ctx ends, WaitN returns ctx's error, and gives its tokens back. As with *rate.Limiter, it does not give
// back those on top of which later callers have reserved: these wait for as long as they were told. After any
// other error, no tokens are taken. WaitN returns nil as soon as the rules let everything of the key
// through, as a bypass does.
//
// Burst is this host's part of the burst. An n above it fails although the burst of
// the whole limit may be enough, except under Auto and exact: they ask the key's owner.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, longest := stage.Now(), stage.Forever
	if deadline, ok := ctx.Deadline(); ok {
		longest = max(stage.At(deadline).Sub(now), 0) // ctx may end a little after its deadline
	}
	taken := reserve(ctx, keyOf(l), now, int64(n), longest)
	if err := taken.err(ctx, longest); err != nil {
		return err
	}
	ended, err := taken.await(ctx)
	if err != nil {
		taken.cancel(ended)
	}
	return err
}

// Charge takes n tokens for what has happened already, allowed or not. It does nothing if n
// is not above 0. The bucket may go into debt, which later events pay for. The deepest debt is
// the sum of the burst, of what fills in within the rule's max_debt or max_wait (the longer of
// the two), and of the rule's max_cost (default: the burst). Charge forgets tokens that would
// make a deeper debt. Reports and metrics count at most as many tokens of one charge as take a
// full bucket of the whole limit to the deepest debt.
func (l *Limiter) Charge(n int) { spend(keyOf(l), stage.Now(), int64(n), stage.Charge) }

// SetDemand states how many events/s, or slots, this host wants: reports say
// so, instead of what is measured, until the next call. Measured, any other negative
// number, or NaN ends the statement. It does not change what is allowed now. The key stays
// live as long as its demand is stated. The keys of a shared rule have one demand: what was
// last stated of any of them while the rule is shared. A key that has no rule keeps its demand
// for the rule to come; one that is refused because of max_keys has none.
func (l *Limiter) SetDemand(wants float64) { keyOf(l).SetDemand(stage.Now(), wants) }

// Rule is the rule that limits the key, or nil if no rule does. It must not be
// changed.
func (l *Limiter) Rule() *dynamicconfig.Rule { return keyOf(l).Current(stage.Now()).Config() }

// Limit is the limit that this host applies now, in events/s or slots.
func (l *Limiter) Limit() rate.Limit { return keyOf(l).Level(stage.Now()).Limit }

// Burst is the most tokens that this host's bucket can hold, rounded down.
func (l *Limiter) Burst() int {
	if b := keyOf(l).Level(stage.Now()).Burst; b < math.MaxInt {
		return int(b)
	}
	return math.MaxInt
}

// Tokens is TokensAt(now).
func (l *Limiter) Tokens() float64 { return keyOf(l).Level(stage.Now()).Tokens }

// TokensAt is how many tokens there are at t; negative in debt.
func (l *Limiter) TokensAt(t time.Time) float64 { return keyOf(l).Level(stage.At(t)).Tokens }

// Stage is the Limiter as a stage: for a shadow.Pair, and for programs that
// run on virtual time. It decides as the Limiter does.
func (l *Limiter) Stage() stage.Stage { return (*staged)(l) }
