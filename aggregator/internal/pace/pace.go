// SPDX-License-Identifier: Apache-2.0

// Package pace spaces log lines: a peer or an algorithm that always errs must not fill the log. It
// does not know what a line says. Its state is two atomics.
package pace

import (
	"sync/atomic"
	"time"
)

// Pacer lets one line through per period. The zero Pacer lets the first through. It is
// safe for concurrent use.
type Pacer struct {
	last    atomic.Int64 // when; 0 for never
	skipped atomic.Int64
}

// Next reports whether a line may be written at now, and how many were skipped
// before it.
func (p *Pacer) Next(now, every time.Duration) (skipped int64, ok bool) {
	last := p.last.Load()
	if last != 0 && now-time.Duration(last) < every || !p.last.CompareAndSwap(last, int64(now)|1) {
		p.skipped.Add(1)
		return 0, false
	}
	return p.skipped.Swap(0), true
}
