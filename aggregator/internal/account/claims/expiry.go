// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"math"
	"time"

	"github.com/headgate/headgate/internal/rowset"
)

// timed are the rows, and which lease ends next, or which host is to be forgotten: a
// heap of rows by when they are to be looked at. A lease that is extended stays where
// it is in the heap, and is put off when it comes to the top. So a claim costs
// constant time, but for one place to find for each length of a lease, however leases
// differ in length.
type timed struct {
	rowset.Set[leaseRow]

	expiry []int32
}

// due is when row i is to be looked at, at or before its lease's end.
func (l *timed) due(i int32) time.Duration { return l.At(i).due }

// extend notes that the lease of row i, whose place in the heap is known, ends
// at until, and for how long its host is known after that.
func (l *timed) extend(i int32, until, stays time.Duration) {
	r := l.At(i)
	r.until = until
	r.stays = uint16(min(max(stays+time.Second-1, 0)/time.Second, math.MaxUint16))
	if until < r.due {
		r.due = until
		l.rise(r.place)
	}
}

// watch gives row i, which is new, a place in the heap.
func (l *timed) watch(i int32, until time.Duration) {
	r := l.At(i)
	r.until, r.due, r.place = until, until, int32(len(l.expiry))
	l.expiry = append(l.expiry, i)
	l.rise(r.place)
}

// unwatch takes row i out of the heap.
func (l *timed) unwatch(i int32) {
	at, last := l.At(i).place, len(l.expiry)-1
	l.swap(at, int32(last))
	l.expiry = l.expiry[:last]
	if int(at) < last {
		l.sink(at)
		l.rise(at)
	}
}

// rise moves what is at a place up as far as it is due.
func (l *timed) rise(at int32) {
	for at > 0 {
		above := (at - 1) / 2
		if l.due(l.expiry[above]) <= l.due(l.expiry[at]) {
			return
		}
		l.swap(at, above)
		at = above
	}
}

// sink moves what is at a place down as far as others are due before it.
func (l *timed) sink(at int32) {
	for {
		first := at
		for below := 2*at + 1; below <= 2*at+2 && int(below) < len(l.expiry); below++ {
			if l.due(l.expiry[below]) < l.due(l.expiry[first]) {
				first = below
			}
		}
		if first == at {
			return
		}
		l.swap(at, first)
		at = first
	}
}

func (l *timed) swap(a, b int32) {
	l.expiry[a], l.expiry[b] = l.expiry[b], l.expiry[a]
	l.At(l.expiry[a]).place, l.At(l.expiry[b]).place = a, b
}
