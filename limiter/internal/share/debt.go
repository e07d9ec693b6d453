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
	if n <= 0 {
		return
	}
	next := &Debt{repay: repay}
	was := r.replace(func(s *seldom) { s.debt = next })
	if was.debt != nil {
		n += max(was.debt.tokens.Swap(0), 0)
	}
	next.tokens.Add(n)
}

// OweNothingElsewhere ends that, because the bucket elsewhere is full, is not asked any more, or was
// asked by a migration before. Then the Rate may give tokens that the bucket was not charged
// with, or gets back otherwise, and the two cannot be told apart.
func (r *rare) OweNothingElsewhere() {
	if s := r.seldom.Load(); s != nil && s.debt != nil {
		r.replace(func(s *seldom) { s.debt = nil })
	}
}

// repay gives back up to n tokens, as many as are owed.
func (r *rare) repay(now stage.Instant, n int64) {
	if s := r.seldom.Load(); s != nil && s.debt != nil {
		if n = min(n, n+s.debt.tokens.Add(-n)); n > 0 {
			s.debt.repay(now, n)
		}
	}
}

// Returned counts what callers give back to the bucket elsewhere from the first call on.
func (r *rare) Returned() *atomic.Int64 {
	count := new(atomic.Int64)
	if was := r.replace(func(s *seldom) {
		if s.back == nil {
			s.back = count
		}
	}); was.back != nil {
		return was.back
	}
	return count
}

// ReturnedBy makes r add what the bucket elsewhere gets back to count. Another Rate, whose callers may
// still give tokens back to the same bucket, adds to it, too.
func (r *rare) ReturnedBy(count *atomic.Int64) {
	r.replace(func(s *seldom) { s.back = count })
}

// Return says that the bucket elsewhere gets n tokens back.
func (r *rare) Return(n int64) {
	if s := r.seldom.Load(); s != nil && s.back != nil {
		s.back.Add(n)
	}
}
