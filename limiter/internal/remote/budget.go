// SPDX-License-Identifier: Apache-2.0

package remote

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

// Spend takes one of perSecond, of which atOnce may be spent at the same time, and
// reports whether there was one.
func (b *Budget) Spend(now stage.Instant, perSecond, atOnce int64) bool {
	each := int64(time.Second) / perSecond
	for {
		full := b.full.Load()
		since := max(full, int64(now))
		if since-int64(now) > 2*atOnce*each { // an event was said to be far in the future
			since = int64(now)
		}
		next := since + each
		if next-int64(now) > atOnce*each {
			return false
		}
		if b.full.CompareAndSwap(full, next) {
			return true
		}
	}
}
