// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// Forever is the longest wait: as long as it takes.
const Forever = rate.InfDuration

// Stage is anything that tokens come from. It is safe for concurrent use.
type Stage interface {
	// Take decides r. It blocks only if Level says that the stage is remote,
	// and then until ctx ends at the latest; with NoWait, it does not. A verdict
	// that is not OK has the zero Receipt.
	Take(ctx context.Context, r Request) (Verdict, Receipt)

	// Allow is Take for one token that the caller needs now and does not settle. It
	// returns only the reason, which most callers ask for, and is quicker where that
	// matters. It blocks as Take does.
	Allow(ctx context.Context, now Instant) Reason

	// Settle says what a request that was taken did cost: less than was taken
	// gives the rest back, more charges the difference. Each Receipt is
	// settled at most once; one that is never settled stays taken. The zero
	// Receipt does nothing.
	Settle(now Instant, r Receipt, actual int64)

	// Cap lowers the tokens to at most tokens, without counting usage. A
	// stage that takes over from another starts with no more than that had.
	// A remote stage lowers only what it shows: its bucket is not this host's.
	Cap(now Instant, tokens float64)

	// Level is what the stage applies at now.
	Level(now Instant) Level

	// Open reports whether the stage lets everything through now, as under a bypass:
	// then callers that wait for its tokens need not wait any longer. The answer holds
	// until one of changed is closed. Most stages return false, nil.
	Open() (open bool, changed []<-chan struct{})
}

// NoWait returns a context, which has ended, for callers that ask a remote Stage whether it can
// answer by itself. If it cannot, the reason is Canceled, and nothing is counted, because the
// caller may ask again with another context.
func NoWait() context.Context { return noWait }

// Undecided reports whether a caller that asked with ctx may ask again: ctx is NoWait's, and
// the Stage could not answer by itself.
func Undecided(ctx context.Context, reason Reason) bool { return reason == Canceled && ctx == noWait }

var noWait = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// Request asks a Stage for tokens. A Stage that knows the rule applies its
// max_debt; the rest of the terms are in the Request.
//
// It is small enough for registers: 32 bytes and four fields.
type Request struct {
	Now Instant

	// N is how many, at least 0. 0 asks for nothing, which is OK unless the
	// wait of those before it would be too long.
	N int64

	// Longest is how long the caller would wait for them, at least 0.
	Longest time.Duration

	Kind Kind
}

// Kind is what a Request is for.
type Kind uint8

const (
	// Take takes the tokens if they are there. The caller may settle it.
	Take Kind = iota
	// Final is Take that the caller will not settle. Its Receipt is zero.
	Final
	// Charge takes tokens that are spent already, into debt if need be. It is
	// always OK, and its Receipt is zero.
	Charge
	// Before is Charge of tokens that another stage gave before this one was asked: they
	// do not count as usage again.
	Before
)

// Verdict is the answer to a Request.
//
// It is small enough for registers, which saves a forwarding stage 10 ns: 32
// bytes and four fields.
type Verdict struct {
	Answer

	// Wait is how long the caller waits before it acts, if OK.
	Wait time.Duration

	// RetryAfter is, if not OK, after how long the same request would be OK
	// if no other caller came; 0 if no wait would do, or if that is not known.
	RetryAfter time.Duration

	// Left is how many tokens are left afterwards; negative in debt. A local
	// stage does not compute it for a request that is Final.
	Left float64
}

// OK reports whether the event may happen.
func (v Verdict) OK() bool { return v.Reason.OK() }

// AllowByTake is Allow for a Stage that has no quicker way than its Take.
func AllowByTake(ctx context.Context, now Instant, take func(context.Context, Request) (Verdict, Receipt)) Reason {
	v, _ := take(ctx, Request{Now: now, N: 1, Kind: Final})
	return v.Reason
}

// Answer is what was decided, and by what.
type Answer struct {
	Reason Reason

	By Source
}

// Source is what decided.
type Source uint8

const (
	// ByAlgorithm is the algorithm that the rule names.
	ByAlgorithm Source = iota
	// ByFallback is the rule's fallback: there is no grant, or the remote
	// bucket did not answer.
	ByFallback
	// ByOwner is the key's owner, where the algorithm also decides otherwise.
	ByOwner
)

// Because returns the Verdict that only gives a reason.
func Because(r Reason) Verdict { return Verdict{Answer: Answer{Reason: r}} }

// Receipt is for tokens that were taken. The zero Receipt is for none. It
// belongs to the Stage that issued it.
type Receipt struct {
	// N is how many tokens were taken.
	N int64

	// Rest is what else the issuer keeps of the request; nil mostly.
	Rest any
}

// Reason says why a Verdict is what it is.
type Reason uint8

const (
	// Granted means that the tokens were taken.
	Granted Reason = iota
	// Soft means that the event is over the limit, and let through because
	// the rule is not enforced in full. No tokens were taken.
	Soft
	// Bypassed means that an override lets everything through. No tokens were taken.
	Bypassed
	// Limited means that there are too few tokens, and that the wait for
	// them, or the debt, would be too long.
	Limited
	// TooCostly means that the event costs more than one event may, or than
	// the bucket on this host can ever hold.
	TooCostly
	// Unmatched means that no rule matches the key, and config denies such keys.
	Unmatched
	// TooManyKeys means that the rule has its max_keys on this host already.
	TooManyKeys
	// InvalidKey means that the key is empty or too long.
	InvalidKey
	// InvalidCost means that the cost is negative.
	InvalidCost
	// Failed means that the key's owner, or the remote bucket, did not
	// answer, and that the rule's fallback is `closed`.
	Failed
	// InFlight means that the rule limits slots in flight; acquire them.
	InFlight
	// Canceled means that the caller's context ended before there was an answer. Stages
	// do not count the event.
	Canceled
	// Forbidden means that the caller may not use the key. No Stage says so: a door
	// refuses the caller before the rule is looked at.
	Forbidden

	// Reasons is how many there are.
	Reasons = int(Forbidden) + 1
)

var reasonNames = [Reasons]string{
	"granted", "soft", "bypassed", "limited", "too-costly", "unmatched", "too-many-keys",
	"invalid-key", "invalid-cost", "failed", "in-flight", "canceled", "forbidden",
}

// OK reports whether the event may happen.
func (r Reason) OK() bool { return r <= Bypassed }

// String is the reason in words, as in metrics.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", r)
}

// Level is what a Stage or Slots apply at an instant.
type Level struct {
	// Limit is in events/s; Burst and Tokens are in tokens. Tokens is
	// negative in debt, and infinite when nothing is limited. Of Slots, Limit
	// and Burst are how many this host may hold, and Tokens the free ones,
	// negative after a cut.
	Limit         rate.Limit
	Burst, Tokens float64

	// Above is how many tokens more a remote stage is believed to have: Cap lowers only
	// Tokens, and not the remote bucket.
	Above float64

	// Remote says that Take waits for an answer from elsewhere.
	Remote bool
}

// Missing is how many tokens a full bucket would have more, rounded up; 0
// when nothing is limited.
func (l Level) Missing() int64 {
	if missing := math.Ceil(l.Burst - l.Tokens - 1e-6); missing > 0 && l.Limit < rate.Inf {
		return int64(min(missing, 1<<53))
	}
	return 0
}
