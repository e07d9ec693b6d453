// SPDX-License-Identifier: Apache-2.0

package bucket

import "sync/atomic"

// MaxCost is the most tokens of one event that count; it keeps the counters
// from overflowing.
const MaxCost int64 = 1 << 40

// Usage is the cost that was allowed and rejected, ever, in tokens. Refunds
// take from it.
type Usage struct{ Allowed, Rejected int64 }

// Total is the cost of all that was asked for.
func (u Usage) Total() int64 { return u.Allowed + u.Rejected }

// Tally counts what was decided. The zero Tally has counted nothing. Its
// methods are safe for concurrent use.
type Tally struct {
	allowed, rejected atomic.Int64 // as in Usage
	largest           atomic.Int64 // cost at once since TakeLargest
}

// Record counts n tokens without taking any. If n is negative, it takes back
// that they were counted.
func (t *Tally) Record(n int64, allowed bool) {
	if largest := t.largest.Load(); n > largest {
		t.largest.CompareAndSwap(largest, n) // another caller's may win
	}
	if n = max(min(n, MaxCost), -MaxCost); allowed {
		t.allowed.Add(n)
	} else {
		t.rejected.Add(n)
	}
}

// rejectOne counts an event that is refused. contended reports that other
// callers were faster, twice in a row.
func (t *Tally) rejectOne() (contended bool) {
	for lost := 0; ; lost++ {
		if n := t.rejected.Load(); t.rejected.CompareAndSwap(n, n+1) {
			return lost > 1
		}
	}
}

// Usage returns what was counted. A Bucket's Count looks into its caches too.
func (t *Tally) Usage() Usage { return Usage{t.allowed.Load(), t.rejected.Load()} }

// Allowed is Usage's. The tokens in caches count as allowed.
func (t *Tally) Allowed() int64 { return t.allowed.Load() }

// Inherit adds what another Tally has counted.
func (t *Tally) Inherit(u Usage) {
	t.allowed.Add(u.Allowed)
	t.rejected.Add(u.Rejected)
}

// TakeLargest returns the largest cost at once since the last call.
func (t *Tally) TakeLargest() int64 {
	if t.largest.Load() == 0 {
		return 0 // a swap waits for everything before it
	}
	return t.largest.Swap(0)
}
