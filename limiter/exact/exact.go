// SPDX-License-Identifier: Apache-2.0

// Package exact has a host's limiters ask the owners of keys for each event:
// the keys of rules with `algorithm: exact`, and those with `algorithm: auto` for
// what the host itself does not have.
//
//	taker := &ask.Taker{Host: host, Placement: ring, Peers: client}
//	owners := exact.NewAuto(taker)
//	group := limiter.NewGroup(limits, 1,
//		limiter.WithRemote(exact.Name, exact.New(taker)),
//		limiter.WithRemote(limiter.Auto, owners), limiter.WithCharges(limiter.Auto, owners))
//
// An event waits for the owner's answer as long as its rule's ask_timeout says.
// The package translates between stage.Remote and an ask.Taker, which batches,
// gives up and learns. Out of scope: the buckets, which package aggregator
// keeps.
package exact

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// Name is the algorithm of the rules whose keys are asked for.
const Name = "exact"

// Owners are the buckets of keys, each at its owner. Use New or NewAuto. Safe
// for concurrent use.
type Owners struct {
	taker *ask.Taker
	auto  bool
	waits func(askTimeout time.Duration) time.Duration // nil: as long as that
}

var (
	_ stage.Remote  = (*Owners)(nil)
	_ stage.Charges = (*Owners)(nil)
)

// New returns the Owners that taker asks; taker may not be nil.
func New(taker *ask.Taker) *Owners { return &Owners{taker: taker} }

// NewAuto returns the Owners that taker, which may not be nil, asks for keys under limiter.Auto.
func NewAuto(taker *ask.Taker) *Owners { return &Owners{taker: taker, auto: true} }

// Waits returns Owners with another timeout: an event waits for its owner's
// answer for what waits returns for the rule's ask_timeout. A host that is far
// from the owners can thus wait longer than others.
func (o *Owners) Waits(waits func(askTimeout time.Duration) time.Duration) *Owners {
	return &Owners{o.taker, o.auto, waits}
}

// Do implements stage.Remote. The errors are those of ask.Taker; a full queue
// is a stage.ErrBusy too, and ask.ErrUndecided a stage.ErrNoBucket.
func (o *Owners) Do(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
	return outcomeOf(o.taker.TakeWithin(ctx, o.take(&op), o.timeout(&op)))
}

// DoAll implements stage.Charges.
func (o *Owners) DoAll(ctx context.Context, ops []stage.Operation, done func(i int, outcome stage.Outcome, err error)) {
	takes, longest := make([]usage.Take, len(ops)), time.Duration(0)
	for i := range ops {
		takes[i], longest = o.take(&ops[i]), max(longest, o.timeout(&ops[i]))
	}
	o.taker.TakeAll(ctx, takes, longest, func(i int, took usage.Took, err error) {
		outcome, err := outcomeOf(took, err)
		done(i, outcome, err)
	})
}

// take is op as its owner is asked for it.
func (o *Owners) take(op *stage.Operation) usage.Take {
	take := usage.Take{Key: op.Key, Auto: o.auto, Measured: op.Measured, Tokens: op.N, Longest: min(op.Longest, rpc.MaxWait), More: min(op.More, rpc.MaxTokens), Wants: min(op.Wants, rpc.MaxTokens)}
	switch op.Kind {
	case stage.ChargeTokens:
		take.Spent = usage.SpentBeyond
	case stage.ReturnTokens, stage.FillTokens:
		take.Tokens = -op.N
	}
	return take
}

// timeout is how long op waits for its owner's answer.
func (o *Owners) timeout(op *stage.Operation) time.Duration {
	if o.waits != nil {
		return o.waits(op.Rule.AskTimeout)
	}
	return op.Rule.AskTimeout
}

// outcomeOf is what an owner answered.
func outcomeOf(took usage.Took, err error) (stage.Outcome, error) {
	switch {
	case errors.Is(err, ask.ErrBusy):
		err = fmt.Errorf("%w: %w", stage.ErrBusy, err)
	case errors.Is(err, ask.ErrUndecided):
		err = fmt.Errorf("%w: %w", stage.ErrNoBucket, err)
	}
	if err != nil {
		return stage.Outcome{}, err
	}
	outcome := stage.Outcome{OK: took.OK, Wait: took.Wait, RetryAfter: took.Retry, Left: took.Left, Lent: took.Lent}
	if outcome.RetryAfter == rpc.MaxWait {
		outcome.RetryAfter = 0 // no wait would do
	}
	return outcome, nil
}
