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
// Add and None are safe for concurrent use. Begin lets one caller in until End;
// Next and Done are for that caller.
type Owed struct {
	tokens  atomic.Int64
	sent    atomic.Pointer[stage.Operation] // without an answer yet
	sending atomic.Bool

	again  bool   // sent was sent before; for the caller that has begun
	forget uint64 // the ID of the Operation before sent, if that was sent only once; for the caller that has begun
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

// None reports whether nothing is owed.
func (o *Owed) None() bool { return o.tokens.Load() == 0 && o.sent.Load() == nil }

// Begin reports whether the caller may send what is owed, until it calls End.
func (o *Owed) Begin() bool { return o.sending.CompareAndSwap(false, true) }

// End lets the next caller in.
func (o *Owed) End() { o.sending.Store(false) }

// Next is the Operation to send, which may have been sent before; nil if there
// is none. Its rule is the one in force.
func (o *Owed) Next(key string, rule *dynamicconfig.Rule) *stage.Operation {
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
	o.tokens.Add(-n) // after that: None is true only if nothing is owed
	return op
}

// Done notes that the Operation was answered. If it was sent before, it may be
// under way still, and its ID must be remembered.
func (o *Owed) Done() {
	if o.forget = o.sent.Load().ID; o.again {
		o.forget = 0
	}
	o.sent.Store(nil)
}
