// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"errors"

	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/stage"
)

// debts sends a Remote what it is owed, in the background.
type debts struct {
	line
	owed elsewhere.Owed
}

// Owes reports whether there is something to send to the remote. Safe for concurrent
// use.
func (d *debts) Owes() bool { return !d.owed.None() }

// waits reports whether the latest send failed less than retryEvery ago, to the second. One that
// failed later than now is of a caller that stated a time to come, and does not count.
func (d *debts) waits(now stage.Instant) bool {
	at, failed := d.failure.At()
	return failed && at <= now && now.Sub(at) < retryEvery
}

// atOnce is how many Operations a sender sends before it begins anew: one that had no answer,
// and one for the rest. What callers add meanwhile does not keep a host that stops.
const atOnce = 2

// Flush sends what is owed in the background.
func (d *debts) Flush(now stage.Instant) {
	if d.begin() && !d.host.Background(func() { d.send(context.Background(), now) }) {
		d.owed.End(nil)
	}
}

// send sends what is owed, for which the caller has begun.
func (d *debts) send(ctx context.Context, now stage.Instant) {
	ended := true // unless do returns: the code of a Remote may end this goroutine
	var failed error
	defer func() {
		if ended {
			failed = d.heard(now, elsewhere.ErrEnded)
		}
		d.end(now, failed)
	}()
	for sent := 0; sent < atOnce && failed == nil; sent++ {
		op := d.next()
		if op == nil {
			break
		}
		_, err := d.do(ctx, *op)
		if err != nil && ctx.Err() != nil { // of an ask, which waits no longer: end has it sent again
			break
		}
		failed = d.heard(now, err)
	}
	ended = false
}

// putFirst has the remote charged with what it is owed by now before it is asked for more. If attempts
// to send that fail for retryEvery, asks wait for them no longer.
func (d *debts) putFirst() {
	if d.host.mayWait() {
		d.owed.PutFirst(stage.Now().Add(retryEvery))
	}
}

// askAfter is do once the remote has been charged with what was put first. If that charge has no answer, neither has
// op. Both together take as long as one may; op alone, if only the remote knows how long that is.
func (d *debts) askAfter(ctx context.Context, op stage.Operation) (o stage.Outcome, err error) {
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(op.Rule.AskTimeout, rule.DefaultAskTimeout))
	defer cancel()
	if err := d.owed.AwaitFirst(bounded, func() { d.send(bounded, stage.Now()) }); err != nil {
		return o, err
	}
	if op.Rule.AskTimeout > 0 {
		ctx = bounded // an owner gives back what it paid too late
	}
	return d.do(ctx, op)
}

// begin reports whether something is owed, and lets the caller send it until end.
func (d *debts) begin() bool { return !d.owed.None() && d.owed.Begin() }

// next is the Operation to send; nil if there is none.
func (d *debts) next() *stage.Operation { return d.owed.Next(d.Key(), d.Terms().Rule) }

// heard notes how the Operation to send ended. The error is why it is to be sent again later.
func (d *debts) heard(now stage.Instant, err error) (failed error) {
	if err != nil && !errors.Is(err, stage.ErrNonsense) {
		d.failed(now, err, false)
		return err
	}
	if d.owed.Done(); err == nil {
		d.answers(now)
	}
	return nil
}

// end ends what begin began.
func (d *debts) end(now stage.Instant, failed error) {
	if d.owed.End(failed); failed == nil {
		d.Flush(now) // what was added when there seemed to be nothing more
	}
}
