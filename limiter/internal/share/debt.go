// SPDX-License-Identifier: Apache-2.0

package share

import (
	"sync/atomic"

	"github.com/headgate/headgate/limiter/stage"
)

// Debt is what a bucket elsewhere was charged with of what a Rate had given before that
// bucket was asked. Callers that give back what the Rate gave make it less. It is safe for
// concurrent use.
type Debt struct {
	tokens atomic.Int64 // below 0 once callers have given back more
	repay  func(now stage.Instant, n int64)
}

// OweElsewhere says that the bucket elsewhere has been charged with n tokens more. repay gives back
// some of them.
func (r *rare) OweElsewhere(n int64, repay func(now stage.Instant, n int64)) {
	next := &Debt{repay: repay}
	was := r.replace(func(s *seldom) { s.debt = next })
	if was.debt != nil {
		n += max(was.debt.tokens.Swap(0), 0)
	}
	next.tokens.Add(n)
}

// repayDebt gives back up to n tokens, as many as are owed.
func (s *seldom) repayDebt(now stage.Instant, n int64) {
	if s.debt != nil {
		if n = min(n, n+s.debt.tokens.Add(-n)); n > 0 {
			s.debt.repay(now, n)
		}
	}
}

// LeaveElsewhere says that the bucket elsewhere is not asked any more. Then the Rate gives tokens
// that the bucket is not charged with, so it owes that nothing. e goes on counting what the
// bucket allows.
func (r *rare) LeaveElsewhere(e *Elsewhere) {
	r.replace(func(s *seldom) { s.left, s.debt = e, nil })
}

// FillElsewhere says that the bucket elsewhere is full: it is owed nothing, and its debts are forgiven.
func (r *rare) FillElsewhere() {
	r.replace(func(s *seldom) { s.debt, s.elsewhere = nil, s.elsewhere.Reset() })
}

// SetBeside says whether a bucket elsewhere gives the tokens, too, that r gives from now on, because a
// migration asks both. Then both get back what callers give back, and r repays nothing.
func (r *rare) SetBeside(on bool) {
	if on || r.has().beside {
		r.replace(func(s *seldom) { s.beside = on })
	}
}

// beside is the Rest of a Receipt whose tokens a bucket elsewhere gave, too.
type beside struct{ Rest any }

// alone is a Receipt as if nothing else had given its tokens.
func alone(receipt stage.Receipt) (own stage.Receipt, both bool) {
	if of, ok := receipt.Rest.(beside); ok {
		return stage.Receipt{N: receipt.N, Rest: of.Rest}, true
	}
	return receipt, false
}

// Return says that a bucket elsewhere got n tokens back that r counts as allowed, though it is not asked any
// more, or was asked beside r.
func (r *rare) Return(n int64) { r.replace(func(s *seldom) { s.back += n }) }

// Returned is the sum of what Return was called with.
func (r *rare) Returned() int64 { return r.has().back }
