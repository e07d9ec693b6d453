// SPDX-License-Identifier: Apache-2.0

package claims

import "math"

// Targets are seldom whole, but slots are. A target is rounded up while there
// are free slots, so that 100 slots on 250 hosts are 100 ones and not 250 zeros.
// First come would be first served for ever, though, so an account knows how
// many slots hosts are short of: what they lack to their targets, rounded down,
// or one if that is none. While there are any,
//
//   - who got a target rounded up gets it rounded down when it claims again;
//   - who would then have none gives its slot back only if no other is free. So
//     where there are more hosts than slots, they take turns, and one slot at a
//     time is on its way.

// slots is how many of room r's host gets for target, and notes how many it is
// short of.
func (l *Leases) slots(r *leaseRow, target, room float64) float64 {
	up, sure := max(math.Ceil(target-wholly), 0), math.Floor(target+wholly)
	due := max(sure, min(up, 1)) // what it should have at least
	lacking := float64(l.short - int64(r.short))
	if sure < 1 {
		lacking = min(lacking, 1, r.part) // who had none takes what is free
	}
	if room-up < lacking {
		up = sure
	}
	got := min(up, room)
	l.lack(r, due-got)
	return got
}

// lack notes that r's host is short of so many slots.
func (l *Leases) lack(r *leaseRow, slots float64) {
	l.short -= int64(r.short)
	r.short = uint32(atMost(slots, math.MaxUint32))
	l.short += int64(r.short)
}
