// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"math"
	"sync/atomic"
)

// lowMark is the low-water mark of a bucket: decisions that leave less say so.
type lowMark struct{ quanta atomic.Int64 }

// Low-water marks that are no amount: no bucket is below never, and every one
// is below always.
const (
	never  = math.MinInt64
	always = math.MaxInt64
)

// above reports whether so many quanta are below the mark. never is below each
// mark but never.
func (m *lowMark) above(left int64) bool { return left < m.quanta.Load() }

func (m *lowMark) setLow(quanta int64) {
	if m.quanta.Load() != quanta {
		m.quanta.Store(quanta)
	}
}

// SetLowNever has no decision say that the bucket is low. It is so at first.
func (m *lowMark) SetLowNever() { m.quanta.Store(never) }

// SetLowAlways has each decision say that the bucket is low, so that a Part that
// is retired learns of late callers. A caller that does not see the mark yet has
// counted its event before the next Count.
func (m *lowMark) SetLowAlways() { m.quanta.Store(always) }

// LowAlways reports whether SetLowAlways is in force.
func (m *lowMark) LowAlways() bool { return m.quanta.Load() == always }

// UnsetLowAlways undoes SetLowAlways. was reports whether it was in force, and
// did whether this call undid it.
func (m *lowMark) UnsetLowAlways() (was, did bool) {
	was = m.LowAlways()
	return was, was && m.quanta.CompareAndSwap(always, never)
}
