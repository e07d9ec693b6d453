// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Batch is what a host reports at one time about its keys of one algorithm.
type Batch struct {
	// Usage goes to the owners; row i is about Usage.Keys[i].
	Usage usage.Report

	room   usage.Report // columns as long as rows may be; Usage's are their beginning
	rows   []row
	filled int // rows before it have their wants
	early  bool
	wants  bool // some row says what the host wants
	costs  bool // rows say what their events cost
	costly bool // some event cost more than 1
	slots  bool // some row has slots in flight
}

// row is where an answer goes, and what it settles.
type row struct {
	subject *Subject
	upTo    reading // counters at the time of the report
	tokens  float64 // at that time
	number  uint32  // which of the Subject's reports it is
}

// fit makes room for n rows.
func (b *Batch) fit(n int) {
	if cap(b.rows) < n {
		b.rows = append(make([]row, 0, n), b.rows...)
	}
	u := &b.room
	u.Keys = sized(u.Keys, n)
	u.Allowed, u.Rejected = sized(u.Allowed, n), sized(u.Rejected, n)
	u.Elapsed, u.Weight = sized(u.Elapsed, n), sized(u.Weight, n)
	if b.wants {
		u.Wants = sized(u.Wants, n)
	}
	if b.costs {
		u.Cost = sized(u.Cost, n)
	}
	if b.slots {
		u.Slots = sized(u.Slots, n)
	}
}

// sized is column with n rows at least.
func sized[E any](column []E, n int) []E {
	if len(column) >= n {
		return column
	}
	return append(make([]E, 0, n), column...)[:n]
}

// finish gives Usage its columns.
func (b *Batch) finish() {
	n, room := len(b.rows), &b.room
	// An earlier Batch may have left pointers beyond the rows.
	clear(b.rows[n:cap(b.rows)])
	clear(room.Keys[n:])
	b.Usage = usage.Report{
		Algorithm: b.Usage.Algorithm,
		Keys:      room.Keys[:n], Allowed: room.Allowed[:n], Rejected: room.Rejected[:n],
		Elapsed: room.Elapsed[:n], Weight: room.Weight[:n],
	}
	if b.wants {
		b.Usage.Wants = room.Wants[:n]
	}
	if b.costly {
		b.Usage.Cost = room.Cost[:n]
	}
	if b.slots {
		b.Usage.Slots = room.Slots[:n]
	}
}

// setSlots notes how many slots row i, the newest, has. Rows that say nothing have 0.
func (b *Batch) setSlots(i int, slots int64) {
	u := &b.room
	if !b.slots {
		b.slots, u.Slots = true, sized(u.Slots, len(u.Keys))
		clear(u.Slots)
	}
	u.Slots[i] = min(slots, rpc.MaxCount-1) + 1
}

// setWants notes what row i, the newest, wants. Rows before it that say nothing
// get what follows from their counts.
func (b *Batch) setWants(i int, wants float64) {
	u := &b.room
	if !b.wants {
		b.wants, u.Wants = true, sized(u.Wants, len(u.Keys))
		for j := range i {
			seconds := max(u.Elapsed[j].Seconds(), 1)
			u.Wants[j] = float64(u.Allowed[j]+u.Rejected[j]) / seconds
		}
	}
	u.Wants[i] = wants
	if b.costs {
		u.Cost[i] = 1
	}
}

// prefetch reads from the Subjects of some rows, unless they lie side by side:
// see ahead. The result keeps the compiler from leaving that out.
//
//go:noinline
func (b *Batch) prefetch(rows []int) (sum int64) {
	if rows[len(rows)-1]-rows[0] < 4*len(rows) {
		return 0
	}
	for _, at := range rows {
		sum += read(b.rows[at].subject)
	}
	return sum
}
