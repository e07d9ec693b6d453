// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// Owed is what a bucket elsewhere has not been charged with yet: tokens used
// without it, or, if negative, tokens to be given back. The zero Owed is nothing.
// One Operation is under way at a time. It keeps its ID until it is answered, so that
// sending it again changes nothing.
//
// Its methods are safe for concurrent use, but for Next and Done: they are for the one caller that
// Begin lets in, until End.
type Owed struct {
	tokens  atomic.Int64
	sent    atomic.Pointer[sent]  // without an answer yet
	first   atomic.Pointer[first] // what asks come after; nil: nothing
	forget  uint64                // the ID of the Operation before sent, if that was sent only once; for the caller that has begun
	sending atomic.Bool
}

// sent is an Operation, and what the caller that has begun knows of it.
type sent struct {
	stage.Operation
	again bool   // it was sent before
	first *first // whose tokens are in it; nil: none
}

// maxOwed keeps the sum from overflowing.
const maxOwed = 1 << 52

// Add adds n tokens.
func (o *Owed) Add(n int64) {
	n = min(max(n, -bucket.MaxCost), bucket.MaxCost)
	for {
		old := o.tokens.Load()
		if o.tokens.CompareAndSwap(old, min(max(old+n, -maxOwed), maxOwed)) {
			return
		}
	}
}

// TakeOver moves to o, which owes nothing, what from owes, for which the caller has begun. It returns how many
// tokens that is.
func (o *Owed) TakeOver(from *Owed) (tokens int64) {
	if op := from.sent.Load(); op != nil {
		if tokens = int64(op.N); op.Kind == stage.ReturnTokens {
			tokens = -tokens
		}
		op.first = nil
		o.sent.Store(op)
	}
	n := from.tokens.Load()
	o.Add(n)
	o.forget, from.forget = from.forget, 0
	from.sent.Store(nil)
	from.tokens.Add(-n)
	return tokens + n
}

// None reports whether nothing is owed.
func (o *Owed) None() bool { return o.tokens.Load() == 0 && o.sent.Load() == nil }

// Begin reports whether the caller may send what is owed, until it calls End.
func (o *Owed) Begin() bool { return o.sending.CompareAndSwap(false, true) }

// End lets the next caller in. err says why the Operation had no answer.
func (o *Owed) End(err error) {
	o.sending.Store(false) // before asks hear of it, of which one may begin
	if f := o.first.Load(); f != nil {
		if err != nil && stage.Now() >= f.until {
			o.first.CompareAndSwap(f, nil)
		}
		f.end(err)
	}
}

// Next is the Operation to send, which may have been sent before; nil if there
// is none. Its rule is the one in force.
func (o *Owed) Next(key string, rule *dynamicconfig.Rule) *stage.Operation {
	if op := o.sent.Load(); op != nil {
		op.Rule, op.again = rule, true
		return &op.Operation
	}
	f := o.first.Load() // before tokens, which have those of f then
	n := o.tokens.Load()
	if n == 0 {
		o.charged(f)
		return nil
	}
	op := &sent{Operation: stage.Operation{Kind: stage.ChargeTokens, ID: rand.Uint64() | 1, Forget: o.forget, Key: key, Rule: rule, N: float64(n)}, first: f}
	if n < 0 {
		op.Kind, op.N = stage.ReturnTokens, -op.N
	}
	o.sent.Store(op)
	o.tokens.Add(-n) // after that: None is true only if nothing is owed
	return &op.Operation
}

// Done notes that the Operation was answered. If it was sent before, it may be
// under way still, and its ID must be remembered.
func (o *Owed) Done() {
	op := o.sent.Load()
	if o.forget = op.ID; op.again {
		o.forget = 0
	}
	o.sent.Store(nil)
	o.charged(op.first)
}
