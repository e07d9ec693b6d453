// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/limiter/internal/backlog"
	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/stage"
)

// sender sends charges and returns to a Remote in the background.
type sender struct {
	line
	outbox elsewhere.Outbox
}

// Outbox implements backlog.Stage.
func (s *sender) Outbox() *elsewhere.Outbox { return &s.outbox }

// Account implements backlog.Stage.
func (s *sender) Account() backlog.Account {
	return backlog.Account{Under: s.under, Measured: s.is(measured), Key: s.Key()}
}

// Gone implements backlog.Stage.
func (s *sender) Gone() bool { return s.is(gone) }

// HasUnsent reports whether there is something to send, or an answer is missing. Safe for concurrent
// use.
func (s *sender) HasUnsent() bool { return !s.outbox.Empty() }

// waits reports whether the latest send failed less than retryEvery ago, to the second. A failure
// later than now does not count: its caller stated a time in the future.
func (s *sender) waits(now stage.Instant) bool {
	at, failed := s.failure.At()
	return failed && at <= now && now.Sub(at) < retryEvery
}

// atOnce is how many Operations one send sends: one that was not answered before,
// and one for the rest. A host that stops does not wait for what callers add meanwhile.
const atOnce = 2

// Flush sends in the background.
func (s *sender) Flush(now stage.Instant) {
	if s.begin() && !s.host.Background(func() { s.send(context.Background(), now) }) {
		s.outbox.End(nil)
	}
}

// send sends. The caller has begun.
func (s *sender) send(ctx context.Context, now stage.Instant) {
	ended := true // unless do returns: the code of a Remote may end this goroutine
	var failed error
	defer func() {
		if ended {
			failed = s.record(now, elsewhere.ErrEnded)
		}
		s.end(now, failed)
	}()
	for sent := 0; sent < atOnce && failed == nil; sent++ {
		op := s.next()
		if op == nil {
			break
		}
		_, err := s.do(ctx, *op)
		if err != nil && ctx.Err() != nil { // ctx is an ask's, which waits no longer: end sends again
			break
		}
		failed = s.record(now, err)
	}
	ended = false
}

// setBarrier has asks wait for the charges that were added until now. If attempts to send them
// fail for retryEvery, asks do not wait any more.
func (s *sender) setBarrier() {
	if s.host.mayWait() {
		s.outbox.SetBarrier(stage.Now().Add(retryEvery))
	}
}

// askAfter waits for the barrier and then asks the remote. If the charge is not answered, the ask fails.
// Both together take at most ask_timeout. Where the rule has none, the ask itself is not bounded: only
// the remote knows how long it may take.
func (s *sender) askAfter(ctx context.Context, op stage.Operation) (o stage.Outcome, err error) {
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(op.Rule.AskTimeout, rule.DefaultAskTimeout))
	defer cancel()
	if err := s.outbox.AwaitBarrier(bounded, func() { s.send(bounded, stage.Now()) }); err != nil {
		return o, err
	}
	if op.Rule.AskTimeout > 0 {
		ctx = bounded // an owner gives back what it paid too late
	}
	return s.do(ctx, op)
}

// begin reports whether there is something to send, and lets the caller send it until end.
func (s *sender) begin() bool { return !s.outbox.Empty() && s.outbox.Begin() }

// next is the Operation to send; nil if there is none. Once s has left its key, it has the rule that the
// key has now: a remote bucket follows the rule that an Operation has.
func (s *sender) next() *stage.Operation {
	rule := s.Terms().Rule
	if s.is(gone) {
		rule = cmp.Or(s.host.config.RateRule(s.Key()), rule)
	}
	op := s.outbox.Next(s.Key(), rule)
	if op != nil {
		op.Measured = s.is(measured)
	}
	return op
}

// record notes how the Operation ended. The error is why it is to be sent again later.
func (s *sender) record(now stage.Instant, err error) (failed error) {
	switch {
	case errors.Is(err, stage.ErrNoBucket) && s.moved():
		s.failure.Again(now) // the rule may come back to the bucket
		return err
	case err != nil && !errors.Is(err, stage.ErrNonsense):
		s.failed(now, err, false)
		return err
	}
	if s.outbox.Done(); err == nil {
		s.answers(now)
	}
	return nil
}

// moved reports whether the rule of the key does not use the remote bucket any more, so that its owner may have none.
func (s *sender) moved() bool {
	rule := s.host.config.RateRule(s.Key())
	return rule == nil || !slices.Contains(rule.Algorithms(), s.under)
}

// end ends what begin began.
func (s *sender) end(now stage.Instant, failed error) {
	if s.outbox.End(failed); failed == nil {
		s.Flush(now) // what was added when there seemed to be nothing more
	}
}
