// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

// Errors of a Remote that say nothing about its health. Any other error means
// that it did not answer in time.
var (
	// ErrBusy means that too many operations are under way on this host.
	ErrBusy = errors.New("too many operations are under way")

	// ErrNonsense means that the answer makes no sense. It concerns its key
	// only.
	ErrNonsense = errors.New("the answer makes no sense")

	// ErrNoBucket means that the Remote answers, and keeps no bucket for the key.
	ErrNoBucket = errors.New("there is no bucket for the key")
)

// Busy is an ErrBusy with a text of its own.
type Busy string

// Error implements error.
func (b Busy) Error() string { return string(b) }

// Is reports whether target is ErrBusy.
func (Busy) Is(target error) bool { return target == ErrBusy }

// Remote is a remote bucket that is asked for each event: at the key's
// owner, or in Redis. It is safe for concurrent use.
type Remote interface {
	// Do carries out op. It returns within a short timeout of its own, and
	// when ctx ends. After an error it is not known whether op was carried
	// out: a charge or a return is sent again under the same ID. A panic
	// counts as an error.
	Do(ctx context.Context, op Operation) (Outcome, error)
}

// Charges are the buckets of a Remote, which take in charges and returns of many keys at
// a time. It is safe for concurrent use.
type Charges interface {
	// DoAll carries out charges and returns, in as few messages as it can. Before it
	// returns it calls done once for each of ops, from one goroutine at a time, with
	// what Do of the Remote would return. No event waits for the answers, so they may take
	// longer than those of Do. DoAll returns when ctx ends, which is after 30 seconds: a
	// host that stops waits for it.
	DoAll(ctx context.Context, ops []Operation, done func(i int, o Outcome, err error))
}

// Operation is what a Remote is asked to do.
type Operation struct {
	Kind OperationKind

	// ID is random, and not 0, for a charge, a return or a fill. If the same one is sent
	// again, it has the same ID, and the Remote carries it out once. It is 0 for a take.
	ID uint64

	// Forget is the ID of an earlier charge or return of Key that will not be
	// sent again: the Remote need not remember it. 0: there is none.
	Forget uint64

	Key string

	// Measured means that another of exact, auto and elastic answers for Key. They have one bucket
	// together, and this is about another one, with which a migration measures.
	Measured bool

	// Rule says all about the bucket, the max_debt too. The limiter has
	// checked its max_cost.
	Rule *dynamicconfig.Rule

	// N is in tokens; finite, at least 0.
	N float64

	// More is how many tokens the Remote may lend the host beside N: as many as the host
	// has room for. 0 means that the host takes no loan, as without a grant. A host that
	// has a grant and no room says more than 0 and less than 1, so that the Remote learns
	// of the grant.
	More float64

	// Wants is how much the host wants of the key by now, in cost/s; 0 if that is not
	// known.
	Wants float64

	// Longest is how long the event may wait, at least 0. The rule's max_wait
	// has gone into it.
	Longest time.Duration
}

// OperationKind is what is done with an Operation's tokens.
type OperationKind uint8

const (
	// TakeTokens takes N if they are there within Longest.
	TakeTokens OperationKind = iota
	// ChargeTokens takes N that are spent already, into debt if need be.
	ChargeTokens
	// ReturnTokens gives N back.
	ReturnTokens
	// FillTokens adds N tokens to the bucket, for an operator who resets it. Callers did not take them before.
	FillTokens
)

// Outcome is a Remote's answer.
type Outcome struct {
	// OK means that a take has its tokens, and that the event may happen after
	// Wait, which is at most the Operation's Longest. If not, nothing was taken.
	// A charge and a return are always OK.
	OK   bool
	Wait time.Duration

	// RetryAfter is as in Verdict.
	RetryAfter time.Duration

	// Left is how many tokens are left in the bucket; negative in debt, finite.
	Left float64

	// Lent is how many tokens the host may use beside those that it took: finite,
	// at least 0. More than the Operation's More counts as that.
	Lent float64
}

// Valid reports whether o can be an answer: every number is one, and no time
// is negative.
func (o Outcome) Valid() bool {
	return o.Wait >= 0 && o.RetryAfter >= 0 && !math.IsNaN(o.Left) && !math.IsInf(o.Left, 0) && o.Lent >= 0
}
