// SPDX-License-Identifier: Apache-2.0

package share

import (
	"github.com/headgate/headgate/limiter/internal/forgiven"
	"github.com/headgate/headgate/limiter/stage"
)

// Back is how many tokens of a Receipt come back if the event did cost actual: less than
// the difference if they were part of a debt that was forgiven since.
func (r *rare) Back(receipt stage.Receipt, actual int64) int64 {
	receipt, _ = alone(receipt)
	if owes, ok := receipt.Rest.(forgiven.Owing); ok {
		return r.has().marks.Back(owes, receipt.N-actual)
	}
	return receipt.N - actual
}

// mark notes new marks of the bucket and of the inactive level.
func (r *rare) mark(m forgiven.Marks) {
	if m != r.has().marks {
		r.replace(func(s *seldom) { s.marks = m })
	}
}

// MarkElsewhere is the newest Mark of the bucket elsewhere. Safe for concurrent use.
func (r *rare) MarkElsewhere() forgiven.Mark { return r.has().elsewhere }

// ChangeMarkElsewhere replaces that Mark by what f makes of it. Safe for concurrent use.
func (r *rare) ChangeMarkElsewhere(f func(forgiven.Mark) forgiven.Mark) {
	r.replace(func(s *seldom) { s.elsewhere = f(s.elsewhere) })
}
