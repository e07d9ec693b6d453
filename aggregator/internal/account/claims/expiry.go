// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"container/heap"
	"math"
	"time"

	"github.com/headgate/headgate/internal/rowset"
)

// timed are the rows, and which lease ends next, or which host is to be forgotten: a
// heap of rows by when they are to be looked at. A lease that is extended stays where
// it is in the heap, and is put off when it comes to the top. So a claim costs
// constant time, but for one place to find for each length of a lease.
type timed struct {
	rowset.Set[leaseRow]

	expiry []int32
}

// extend notes that the lease of row i, whose place in the heap is known, ends
// at until, and for how long its host is known after that.
func (l *timed) extend(i int32, until, stays time.Duration) {
	r := l.At(i)
	r.until = until
	r.stays = uint16(min(max(stays+time.Second-1, 0)/time.Second, math.MaxUint16))
	if until < r.due {
		r.due = until
		heap.Fix((*byDue)(l), int(r.place))
	}
}

// watch gives row i, which is new, a place in the heap.
func (l *timed) watch(i int32, until time.Duration) {
	r := l.At(i)
	r.until, r.due = until, until
	heap.Push((*byDue)(l), i)
}

// unwatch takes row i out of the heap.
func (l *timed) unwatch(i int32) { heap.Remove((*byDue)(l), int(l.At(i).place)) }

// putOff has the row that is due first looked at later.
func (l *timed) putOff(due time.Duration) {
	l.At(l.expiry[0]).due = due
	heap.Fix((*byDue)(l), 0)
}

// byDue is timed as a heap.Interface.
type byDue timed

func (l *byDue) Len() int           { return len(l.expiry) }
func (l *byDue) Less(a, b int) bool { return l.At(l.expiry[a]).due < l.At(l.expiry[b]).due }

func (l *byDue) Swap(a, b int) {
	l.expiry[a], l.expiry[b] = l.expiry[b], l.expiry[a]
	l.At(l.expiry[a]).place, l.At(l.expiry[b]).place = int32(a), int32(b)
}

func (l *byDue) Push(row any) {
	i, _ := row.(int32)
	l.At(i).place = int32(len(l.expiry))
	l.expiry = append(l.expiry, i)
}

func (l *byDue) Pop() any {
	l.expiry = l.expiry[:len(l.expiry)-1]
	return nil
}
