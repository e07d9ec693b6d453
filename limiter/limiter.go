// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// Limiter limits the events of one key. It has the methods of *rate.Limiter
// that take or show tokens, with the same meaning; the limit itself comes from
// the rules of its Group. Get one from Group.For, NewBucket or FromRate.
//
// A Limiter stays valid for ever. It follows config changes, and when its key
// was forgotten because nobody used it, the next use brings it back.
//
// Most callers should use Allow, or Wait when the caller can be slowed down.
// Costs are whole tokens; a negative cost is refused. All methods are safe for
// concurrent use. None waits but Wait, WaitN and Acquire, unless the rule's
// algorithm asks elsewhere for each event: then those that take tokens wait for
// that answer.
type Limiter struct {
	state atomic.Pointer[state] // what decides now; nil while the key is not live
	group *Group                // nil if it has no rules
	key   string
}

// Key is the full key; empty if the Limiter is no Group's.
func (l *Limiter) Key() string { return l.key }

// Allow is AllowN(now, 1).
func (l *Limiter) Allow() bool {
	if st := l.state.Load(); st != nil && st.rate != nil {
		return st.rate.Allow(stage.Now())
	}
	return l.allow(stage.Now(), 1)
}

func (l *Limiter) allow(now stage.Instant, n int64) bool {
	v, _, _ := l.decide(context.Background(), now, n, 0, stage.Final)
	return v.Reason <= stage.Soft
}

// AllowN reports whether n events may happen at t, and takes n tokens if so.
func (l *Limiter) AllowN(t time.Time, n int) bool {
	return l.allow(stage.At(t), int64(n))
}

// Reserve is ReserveN(now, 1).
func (l *Limiter) Reserve() *Reservation { return l.reserve(stage.Now(), 1) }

// ReserveN takes n tokens at t, from the future if they are not there yet. The
// caller waits for the Reservation's Delay before it acts.
func (l *Limiter) ReserveN(t time.Time, n int) *Reservation {
	return l.reserve(stage.At(t), int64(n))
}

func (l *Limiter) reserve(now stage.Instant, n int64) *Reservation {
	return &Reservation{l.take(context.Background(), now, n, stage.Forever)}
}

// Wait is WaitN(ctx, 1).
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN waits until n events may happen. It returns an error at once if n
// exceeds this host's Burst (ErrNever), or if the wait would outlast ctx's
// deadline or the rule's max_wait, and ctx's error when ctx ends; then no
// tokens are taken.
//
// Burst is this host's part of the burst. An n above it fails although the
// burst of the whole limit may be enough.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, longest := stage.Now(), stage.Forever
	if deadline, ok := ctx.Deadline(); ok {
		longest = stage.At(deadline).Sub(now)
	}
	taken := l.take(ctx, now, int64(n), longest)
	if err := taken.err(ctx, longest); err != nil {
		return err
	}
	if wait := taken.acts.Sub(stage.Now()); wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			taken.cancel(stage.Now())
			return err
		}
	}
	return nil
}

// Charge takes n tokens for what has happened already, allowed or not. The
// bucket may go into debt: later events pay for it.
func (l *Limiter) Charge(n int) { l.charge(stage.Now(), int64(n)) }

// SetDemand states how many events/s, or slots, this host wants: reports say
// so, instead of what is measured, until the next call. Measured (or NaN) ends
// the statement. It does not change what is allowed now. The key stays live as
// long as its demand is stated. The keys of a shared rule have one demand.
func (l *Limiter) SetDemand(wants float64) {
	if l.group != nil {
		l.group.setDemand(stage.Now(), l, wants)
	}
}

// Limit is the limit that this host applies now, in events/s or slots.
func (l *Limiter) Limit() rate.Limit { return l.level(stage.Now()).Limit }

// Burst is the most tokens that this host's bucket can hold, rounded down.
func (l *Limiter) Burst() int {
	if b := l.level(stage.Now()).Burst; b < math.MaxInt {
		return int(b)
	}
	return math.MaxInt
}

// Tokens is TokensAt(now).
func (l *Limiter) Tokens() float64 { return l.level(stage.Now()).Tokens }

// TokensAt is how many tokens there are at t; negative in debt.
func (l *Limiter) TokensAt(t time.Time) float64 { return l.level(stage.At(t)).Tokens }

// Refused says why nothing at all is allowed for this key: ErrUnmatched,
// ErrTooManyKeys, ErrInvalidKey; ErrInFlight if only Acquire and TryAcquire
// are; or nil.
func (l *Limiter) Refused() error {
	st := l.current(stage.Now())
	switch {
	case st.stage != nil:
		return nil
	case st.reason == stage.TooManyKeys:
		return fmt.Errorf("rule %q with max_keys %d: %w", st.rule.key(), st.rule.most(), ErrTooManyKeys)
	default:
		return errorOf(st.reason)
	}
}

// level is what decides at now.
func (l *Limiter) level(now stage.Instant) stage.Level { return l.current(now).level(now) }

// Stage is the Limiter as a stage: for a shadow.Pair, and for programs that
// run on virtual time. It decides as the Limiter does.
func (l *Limiter) Stage() stage.Stage { return (*stepped)(l) }

// stepped is a Limiter as a stage.Stage.
type stepped Limiter

// Take implements stage.Stage.
func (s *stepped) Take(ctx context.Context, r stage.Request) (stage.Verdict, stage.Receipt) {
	l := (*Limiter)(s)
	if r.Kind == stage.Charge {
		return l.charge(r.Now, r.N), stage.Receipt{}
	}
	v, receipt, from := l.decide(ctx, r.Now, r.N, r.Longest, r.Kind)
	if receipt.N == 0 {
		return v, stage.Receipt{}
	}
	kept := &taken{Verdict: v, of: l, asked: r.N, at: r.Now, acts: r.Now.Add(v.Wait), from: from, receipt: receipt}
	return v, stage.Receipt{N: receipt.N, Rest: kept}
}

// Settle implements stage.Stage.
func (s *stepped) Settle(now stage.Instant, r stage.Receipt, actual int64) {
	if t, ok := r.Rest.(*taken); ok {
		t.settle(now, actual)
	}
}

// Cap implements stage.Stage.
func (s *stepped) Cap(now stage.Instant, tokens float64) {
	if st := (*Limiter)(s).current(now); st.stage != nil {
		st.stage.Cap(now, tokens)
	}
}

// Level implements stage.Stage.
func (s *stepped) Level(now stage.Instant) stage.Level { return (*Limiter)(s).level(now) }
