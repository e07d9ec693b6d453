// SPDX-License-Identifier: Apache-2.0

package account

import (
	"math"
	"time"
)

// Late is by how much a host's latest report came later than those before, in lateUnits. It is
// 0 as a rule.
type Late uint8

const (
	lateBits = 22
	lateUnit = 1 << lateBits // ns, so that no division is needed
	latest   = AnyTime - 1

	// AnyTime says that a host has not reported since it was taken for dead: all of its next report is new.
	AnyTime Late = math.MaxUint8
)

// Overlap is by how much more time than has passed a report may be about, because
// messages take different times to arrive.
const Overlap = 50 * time.Millisecond

// NewPart is which part of r is new, if r came so long after the host's report before. A report whose answer was
// lost comes again as a part of the next, which Overlaps then. But a report may also be about more time than has passed
// because the one before came late.
func (l *Late) NewPart(since time.Duration, r *Report) (part float64) {
	late, lag := time.Duration(*l)*lateUnit, since-r.Elapsed
	switch {
	case *l == AnyTime:
		late = 0
	case lag+late < -Overlap:
		*l, r.Overlaps = 0, true
		return float64(since+late+Overlap) / float64(r.Elapsed)
	}
	more := (lag + late/2) >> lateBits // half: a network that is slower from now on makes no report late
	if uint64(more) > uint64(latest) { // r is on time, or its host was silent or has started
		more = 0
	}
	*l = Late(more)
	return 1
}
