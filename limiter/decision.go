// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/stage"
)

// Reason is why a Decision is what it is.
type Reason = stage.Reason

// The Reasons; see package stage for each.
const (
	Granted     = stage.Granted
	Soft        = stage.Soft
	Bypassed    = stage.Bypassed
	Limited     = stage.Limited
	TooCostly   = stage.TooCostly
	Unmatched   = stage.Unmatched
	TooManyKeys = stage.TooManyKeys
	InvalidKey  = stage.InvalidKey
	InvalidCost = stage.InvalidCost
	Failed      = stage.Failed
	InFlight    = stage.InFlight
	Canceled    = stage.Canceled
	Forbidden   = stage.Forbidden
)

// Decision is whether an event may happen, and why. The zero Decision is not
// valid.
type Decision struct {
	// OK: it may happen, after Wait. The tokens were taken, unless Reason is
	// Soft or Bypassed. If not OK, nothing was taken.
	OK     bool
	Reason Reason
	Wait   time.Duration

	// RetryAfter is after how long the same event would be OK if no other caller
	// came; 0 if it is OK, if no wait would do, or if that is not known. Under
	// auto it may be when the host asks the key's owner again.
	RetryAfter time.Duration

	// Limit (events/s), Burst and Left (tokens) are those of this host's part of the limit,
	// after the decision. Where each event is decided elsewhere, they are those of the whole
	// limit. Under auto, a host with a grant states its part, even if the key's owner decided
	// (By is "owner"). Left is negative in debt. When nothing is limited, Limit is rate.Inf, Left is
	// infinite, and Burst means nothing. All three are 0 when they are not known.
	Limit       rate.Limit
	Burst, Left float64

	// By is the algorithm or the fallback that decided; empty when the key has
	// no limiter, and of a Limiter that is no Group's.
	By string
}

// Decide reports whether an event of cost n may happen, and why, and takes n
// tokens if so. It does not wait until the event may happen: the caller waits for the
// Decision's Wait.
//
// longest is the longest that the caller would wait. An event that would wait for longer,
// or for longer than the rule's max_wait, is refused. With 0, an event is refused if it
// would wait at all, as with Allow. If longest is negative, only max_wait counts. ctx
// matters only where the decision is made elsewhere.
func (l *Limiter) Decide(ctx context.Context, n int, longest time.Duration) Decision {
	now := stage.Now()
	v, _, _ := decide(ctx, keyOf(l), now, int64(n), longest, stage.Final)
	return newDecision(keyOf(l), now, v)
}

// DecideWait is Decide for a caller that may leave before its Wait is over: then it
// cancels the Estimate, and the tokens go back. Estimate.Wait waits, and cancels when its
// context ends. The Estimate is nil if the Decision has no Wait.
func (l *Limiter) DecideWait(ctx context.Context, n int, longest time.Duration) (Decision, *Estimate) {
	t := reserve(ctx, keyOf(l), stage.Now(), int64(n), longest)
	d := newDecision(t.of, t.at, t.Verdict)
	if d.Wait <= 0 {
		return d, nil
	}
	return d, &Estimate{decision: d, taken: t}
}

// newDecision explains a Verdict of k at now.
func newDecision(k *keys.Key, now stage.Instant, v stage.Verdict) Decision {
	st := k.Current(now)
	level := st.Level(now)
	d := Decision{
		OK: v.OK(), Reason: v.Reason, Wait: v.Wait, RetryAfter: v.RetryAfter,
		Limit: level.Limit, Burst: level.Burst, Left: level.Tokens, By: st.By(v.By),
	}
	if level.Remote && v.By != stage.ByFallback && (v.OK() || v.Reason == stage.Limited) {
		d.Left = v.Left // the remote answered
	}
	if v.Reason == Bypassed {
		d.Limit, d.Burst, d.Left, d.By = rate.Inf, math.Inf(1), v.Left, ""
	}
	return d
}

// Estimate is the expected cost of an event, taken before the actual cost is
// known: tokens of a language model, bytes, milliseconds of processor time. Settle
// corrects it afterwards.
//
//	e := group.For("llm:gpt").Take(ctx, 800, -1)
//	if !e.OK() {
//		return errTooManyRequests
//	}
//	defer e.Cancel() // unless it was settled
//	…
//	e.Settle(answer.TokensUsed)
//
// Tokens of an Estimate that is neither settled nor cancelled stay taken. An
// Estimate is safe for concurrent use. The zero Estimate is not OK.
type Estimate struct {
	decision Decision
	taken    taken
	over     atomic.Int32 // settled or cancelled; 0 before
}

const (
	settled = iota + 1
	cancelled
)

// Take decides as Decide does, and takes n tokens, the expected cost, if the event
// may happen. If the event costs less, Settle gives the difference back. If the
// event costs more, Settle charges the difference, and the bucket may go into debt.
func (l *Limiter) Take(ctx context.Context, n int, longest time.Duration) *Estimate {
	return newEstimate(reserve(ctx, keyOf(l), stage.Now(), int64(n), longest))
}

func newEstimate(t taken) *Estimate {
	return &Estimate{decision: newDecision(t.of, t.at, t.Verdict), taken: t}
}

// OK reports whether the event may happen, after Decision's Wait.
func (e *Estimate) OK() bool { return e.decision.OK }

// Decision is what was decided of the estimated cost.
func (e *Estimate) Decision() Decision { return e.decision }

// Wait waits until the event may happen: for as long as Decision says, or until the rules
// let everything of the key through, as a bypass does. When ctx ends before, Wait cancels
// the Estimate, and returns ctx's error. If the event may not happen at all, Wait returns why
// at once, as WaitN does. If the Estimate has been cancelled by then, the error is context.Canceled.
func (e *Estimate) Wait(ctx context.Context) error {
	if err := e.taken.err(ctx, stage.Forever); err != nil {
		return err
	}
	now, err := e.taken.await(ctx)
	if err != nil {
		e.end(now, cancelled, 0)
	} else if e.over.Load() == cancelled {
		err = fmt.Errorf("limiter: wait for %s, which was cancelled: %w", &e.taken, context.Canceled)
	}
	return err
}

// Settle says that the event did happen, and cost actual tokens; a negative number counts as
// 0. Only the first call of Settle or Cancel does anything.
func (e *Estimate) Settle(actual int) { e.settle(stage.Now(), int64(actual)) }

func (e *Estimate) settle(now stage.Instant, actual int64) { e.end(now, settled, actual) }

// Cancel says that the event did not happen: all is given back, and nothing is
// counted as usage.
func (e *Estimate) Cancel() { e.end(stage.Now(), cancelled, 0) }

func (e *Estimate) end(now stage.Instant, over int32, actual int64) {
	if e.over.CompareAndSwap(0, over) {
		e.taken.settle(now, actual)
	}
}

// Cost is a cost of N tokens, at least 0, to one limiter. Without a Limiter it is refused.
type Cost struct {
	Limiter *Limiter
	N       int
}

// AllowAll reports whether all limiters allow their cost now, and takes the tokens of all
// of them if so. It asks one limiter after the other, in the order of costs: name the
// narrowest limit first. When one refuses, AllowAll asks no more, and the tokens of those
// before it go back and do not count as usage, wherever the buckets are. So they do if a
// stage panics. Without costs it is true.
func AllowAll(ctx context.Context, costs ...Cost) bool {
	_, refused := TakeAll(ctx, 0, costs...)
	return refused == nil
}

// Refusal is the Decision that refused one of several costs, and that Cost. Its Limiter is
// never nil.
type Refusal struct {
	Decision
	Cost Cost
}

// TakeAll is AllowAll whose tokens can be settled. It returns an Estimate for each cost, in
// the order of costs, and nil; or nil and the first Refusal. longest is the longest that the
// caller would wait, as in Decide. TakeAll does not wait itself: the caller waits for the
// longest Wait of the Decisions.
func TakeAll(ctx context.Context, longest time.Duration, costs ...Cost) ([]*Estimate, *Refusal) {
	all, done := make([]*Estimate, 0, len(costs)), false
	defer func() {
		if !done { // one refused, or the code of a stage panicked
			for _, e := range all {
				e.Cancel()
			}
		}
	}()
	for _, c := range costs {
		if c.Limiter == nil {
			c.Limiter = new(Limiter) // which refuses everything
		}
		e := c.Limiter.Take(ctx, c.N, longest)
		if !e.OK() {
			return nil, &Refusal{e.decision, c}
		}
		all = append(all, e)
	}
	done = true
	return all, nil
}
