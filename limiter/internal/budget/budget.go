// SPDX-License-Identifier: Apache-2.0

// Package budget bounds how often something is done. It does not know what is done. A Budget is
// one atomic word.
package budget

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// Budget bounds how often something is done. The zero Budget is full. Safe for
// concurrent use.
type Budget struct {
	// full is the Instant at which the budget is full again.
	full atomic.Int64
}

// Spend takes one from the budget, and reports whether there was one. The budget gains perSecond
// in each second, and has room for atOnce.
func (b *Budget) Spend(now stage.Instant, perSecond, atOnce int64) bool {
	for {
		full := b.full.Load()
		next, ok := after(full, int64(now), perSecond, atOnce)
		if !ok || b.full.CompareAndSwap(full, next) {
			return ok
		}
	}
}

// GiveBack gives a part, in [0, 1], of one back that Spend has taken. The budget never has more than
// there is room for.
func (b *Budget) GiveBack(part float64, perSecond int64) {
	b.full.Add(-int64(part * float64(int64(time.Second)/perSecond)))
}

// Wait is how long it is until Spend finds one; 0 if it would now.
func (b *Budget) Wait(now stage.Instant, perSecond, atOnce int64) time.Duration {
	next, _ := after(b.full.Load(), int64(now), perSecond, atOnce)
	return time.Duration(max(next-int64(now)-atOnce*(int64(time.Second)/perSecond), 0))
}

// after is full once one more is spent at now, and whether there is one.
func after(full, now, perSecond, atOnce int64) (next int64, ok bool) {
	each := int64(time.Second) / perSecond
	if full-now > 2*atOnce*each { // an event was said to be far in the future
		full = now
	}
	next = max(full, now) + each
	return next, next-now <= atOnce*each
}
