// SPDX-License-Identifier: Apache-2.0

package share

import (
	"github.com/headgate/headgate/limiter/internal/forgiven"
	"github.com/headgate/headgate/limiter/stage"
)

// Back is how many tokens of a Receipt come back if the event did cost actual: less than
// the difference if they were part of a debt that was forgiven since.
func (x *extras) Back(receipt stage.Receipt, actual int64) int64 {
	receipt, _ = unpaired(receipt)
	if debt, ok := receipt.Rest.(forgiven.Debt); ok {
		return x.extra().marks.Back(debt, receipt.N-actual)
	}
	return receipt.N - actual
}

// mark replaces the marks of both levels.
func (x *extras) mark(m forgiven.Marks) {
	if m != x.extra().marks {
		x.update(func(e *extra) { e.marks = m })
	}
}

// RemoteMark is the newest Mark of the remote bucket. Safe for concurrent use.
func (x *extras) RemoteMark() forgiven.Mark { return x.extra().remoteMark }

// UpdateRemoteMark replaces that Mark by what f makes of it. Safe for concurrent use.
func (x *extras) UpdateRemoteMark(f func(forgiven.Mark) forgiven.Mark) {
	x.update(func(e *extra) { e.remoteMark = f(e.remoteMark) })
}
