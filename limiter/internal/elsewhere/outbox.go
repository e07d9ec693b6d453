// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// Outbox is what a remote bucket is still to be charged with: tokens that were used
// without asking it, or, if negative, tokens to be given back. The zero Outbox is empty.
// One Operation is under way at a time. It keeps its ID until it is answered, so that
// sending it again changes nothing.
//
// Its methods are safe for concurrent use, except Next and Done: those are for the one caller that
// Begin lets in, until End.
type Outbox struct {
	tokens  atomic.Int64            // not in an Operation yet
	sent    atomic.Pointer[sent]    // not answered yet; nil: none
	barrier atomic.Pointer[barrier] // holds asks back; nil: none
	forget  uint64                  // the last ID that was answered, if the remote may forget it; 0: none. For the caller that has begun
	sending atomic.Bool
	listed  atomic.Bool // see List
}

// sent is an Operation, and what the caller that has begun needs to know about it.
type sent struct {
	stage.Operation
	again   bool     // it was sent before
	barrier *barrier // whose charges are in it; nil: none
}

// most bounds the sum, so that it does not overflow.
const most = 1 << 52

// Add adds n tokens.
func (o *Outbox) Add(n int64) {
	n = min(max(n, -bucket.MaxCost), bucket.MaxCost)
	for {
		old := o.tokens.Load()
		if o.tokens.CompareAndSwap(old, min(max(old+n, -most), most)) {
			return
		}
	}
}

// TakeOver moves everything from another Outbox, for which the caller has begun, to o, which is empty.
// It returns how many tokens that is.
func (o *Outbox) TakeOver(from *Outbox) (tokens int64) {
	if op := from.sent.Load(); op != nil {
		if tokens = int64(op.N); op.Kind == stage.ReturnTokens {
			tokens = -tokens
		}
		op.barrier = nil
		o.sent.Store(op)
	}
	n := from.tokens.Load()
	o.Add(n)
	o.forget, from.forget = from.forget, 0
	from.sent.Store(nil)
	from.tokens.Add(-n)
	return tokens + n
}

// Empty reports whether everything is sent and answered.
func (o *Outbox) Empty() bool { return o.tokens.Load() == 0 && o.sent.Load() == nil }

// List marks o as listed among the outboxes with something to send. It returns true if o was not, so that one caller adds it to
// the list.
func (o *Outbox) List() bool { return !o.listed.Load() && o.listed.CompareAndSwap(false, true) }

// Listed reports whether a caller has listed o.
func (o *Outbox) Listed() bool { return o.listed.Load() }

// Unlist says that o is not listed any more.
func (o *Outbox) Unlist() { o.listed.Store(false) }

// Begin reports whether the caller may send, until it calls End.
func (o *Outbox) Begin() bool { return o.sending.CompareAndSwap(false, true) }

// End lets the next caller in. err is why the Operation was not answered.
func (o *Outbox) End(err error) {
	o.sending.Store(false) // before asks are woken, of which one may begin
	if b := o.barrier.Load(); b != nil {
		if err != nil && stage.Now() >= b.until {
			o.barrier.CompareAndSwap(b, nil)
		}
		b.endAttempt(err)
	}
}

// Next is the Operation to send, which may have been sent before; nil if there
// is none. Its rule is the one in force.
func (o *Outbox) Next(key string, rule *dynamicconfig.Rule) *stage.Operation {
	if op := o.sent.Load(); op != nil {
		op.Rule, op.again = rule, true
		return &op.Operation
	}
	b := o.barrier.Load() // before tokens, which include those that b waits for
	n := o.tokens.Load()
	if n == 0 {
		o.lift(b)
		return nil
	}
	op := &sent{Operation: stage.Operation{Kind: stage.ChargeTokens, ID: rand.Uint64() | 1, Forget: o.forget, Key: key, Rule: rule, N: float64(n)}, barrier: b}
	if n < 0 {
		op.Kind, op.N = stage.ReturnTokens, -op.N
	}
	o.sent.Store(op)
	o.tokens.Add(-n) // after Store, so that Empty is never true in between
	return &op.Operation
}

// Done notes that the Operation was answered. If it was sent before, it may be
// under way still, and its ID must be remembered.
func (o *Outbox) Done() {
	op := o.sent.Load()
	if o.forget = op.ID; op.again {
		o.forget = 0
	}
	o.sent.Store(nil)
	o.lift(op.barrier)
}

// Heard counts what a remote bucket has heard, from several Stages if they share it. Safe for concurrent use.
type Heard struct {
	Operations atomic.Int64 // that it was sent
	Returned   atomic.Int64 // tokens
}
