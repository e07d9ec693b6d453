// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// owed is what the remote bucket has not been charged with yet: tokens used
// without it, or, if negative, tokens to be given back. One Operation is under
// way at a time. It keeps its ID until it is answered, so that sending it again
// changes nothing.
//
// add and none are safe for concurrent use. begin lets one caller in until end;
// next and done are for that caller.
type owed struct {
	tokens  atomic.Int64
	sent    atomic.Pointer[stage.Operation] // without an answer yet
	sending atomic.Bool

	again  bool   // sent was sent before; for the caller that has begun
	forget uint64 // the ID of the Operation before sent, if that was sent only once; for the caller that has begun
}

// maxOwed keeps the sum from overflowing.
const maxOwed = 1 << 52

func (o *owed) add(n int64) {
	n = min(max(n, -bucket.MaxCost), bucket.MaxCost)
	for {
		old := o.tokens.Load()
		if o.tokens.CompareAndSwap(old, min(max(old+n, -maxOwed), maxOwed)) {
			return
		}
	}
}

// none reports whether nothing is owed.
func (o *owed) none() bool { return o.tokens.Load() == 0 && o.sent.Load() == nil }

func (o *owed) begin() bool { return o.sending.CompareAndSwap(false, true) }

func (o *owed) end() { o.sending.Store(false) }

// next is the Operation to send, which may have been sent before; nil if there
// is none. Its rule is the one in force.
func (o *owed) next(key string, rule *dynamicconfig.Rule) *stage.Operation {
	if op := o.sent.Load(); op != nil {
		op.Rule, o.again = rule, true
		return op
	}
	n := o.tokens.Load()
	if n == 0 {
		return nil
	}
	op := &stage.Operation{Kind: stage.ChargeTokens, ID: rand.Uint64() | 1, Key: key, Rule: rule, N: float64(n)}
	if n < 0 {
		op.Kind, op.N = stage.ReturnTokens, -op.N
	}
	op.Forget, o.again = o.forget, false
	o.sent.Store(op)
	o.tokens.Add(-n) // after that: none is true only if nothing is owed
	return op
}

// done notes that the Operation was answered. If it was sent before, it may be
// under way still, and its ID must be remembered.
func (o *owed) done() {
	if o.forget = o.sent.Load().ID; o.again {
		o.forget = 0
	}
	o.sent.Store(nil)
}

// debts sends a Remote what it is owed, in the background.
type debts struct {
	line
	owed owed
}

// Owes reports whether there is something to send to the remote. Safe for concurrent
// use.
func (d *debts) Owes() bool { return !d.owed.none() }

// waits reports whether something was sent in vain so lately that it is not sent again yet.
func (d *debts) waits(now stage.Instant) bool { return int64(now) < d.retryAt.Load() }

// atOnce is how many Operations a sender sends before it begins anew: one that had no answer,
// and one for the rest. What callers add meanwhile does not keep a host that stops.
const atOnce = 2

// Flush sends what is owed in the background.
func (d *debts) Flush(now stage.Instant) {
	if !d.begin() {
		return
	}
	sends := d.host.Background(func() {
		failed := false
		defer func() { d.end(now, failed) }()
		for range atOnce {
			op := d.next()
			if op == nil {
				return
			}
			_, err := d.do(context.Background(), *op)
			if failed = d.heard(now, err); failed {
				return
			}
		}
	})
	if !sends {
		d.owed.end()
	}
}

// begin reports whether something is owed, and lets the caller send it until end.
func (d *debts) begin() bool { return !d.owed.none() && d.owed.begin() }

// next is the Operation to send; nil if there is none.
func (d *debts) next() *stage.Operation { return d.owed.next(d.Key(), d.Terms().Rule) }

// heard notes how the Operation to send ended, and whether it is to be sent again later.
func (d *debts) heard(now stage.Instant, err error) (failed bool) {
	if err != nil && !errors.Is(err, stage.ErrNonsense) {
		d.failed(now, err, false)
		return true
	}
	if d.owed.done(); err == nil {
		d.answers(now)
	}
	return false
}

// end ends what begin began.
func (d *debts) end(now stage.Instant, failed bool) {
	if d.owed.end(); !failed {
		d.Flush(now) // what was added when there seemed to be nothing more
	}
}
