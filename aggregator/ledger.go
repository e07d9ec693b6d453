// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// ledger is what the hosts of one key demand, and the sum of it.
//
// A host's demand fades in stages as its last report ages. Rows of one stage
// stand in a queue, oldest report first, so whoever is due for the next stage
// is always at a head. A report and a stage that passes each cost constant
// time, and the sum is right at any time without looking at all rows.
type ledger struct {
	rows  []row
	index map[uint32]int32 // by host
	empty int32            // head of the list of free rows; none if there is none
	sum   total            // of all rows, faded
	fresh queue            // stage 0
	aging []queue          // later stages; nil until a host falls silent
}

// row is one host's average, as of its last report.
type row struct {
	demand     algorithm.Demand
	last       time.Duration
	host       uint32
	prev, next int32 // in the stage's queue; next alone among free rows
	stage      uint8
}

type queue struct{ head, tail int32 }

// none is no row.
const none = -1

var emptyQueue = queue{none, none}

func newLedger() ledger {
	return ledger{index: make(map[uint32]int32), empty: none, fresh: emptyQueue}
}

func (l *ledger) len() int { return len(l.index) }

func (l *ledger) knows(host uint32) bool {
	_, ok := l.index[host]
	return ok
}

// record takes in that host uses rate. It returns whether host is new.
func (l *ledger) record(now time.Duration, host uint32, rate algorithm.Demand, average algorithm.Average, stages []algorithm.Stage) bool {
	i, known := l.index[host]
	if known {
		r := &l.rows[i]
		faded := r.demand.Times(stages[r.stage].Factor)
		l.sum.add(faded.Times(-1))
		l.unlink(i)
		r.demand = average.Next(faded, rate)
	} else {
		i = l.take()
		l.index[host] = i
		l.rows[i].demand, l.rows[i].host = rate, host
	}
	l.rows[i].last, l.rows[i].stage = now, 0
	l.sum.add(l.rows[i].demand)
	l.link(i)
	return !known
}

// demand of host, faded; zero if it is not known.
func (l *ledger) demand(host uint32, stages []algorithm.Stage) algorithm.Demand {
	i, ok := l.index[host]
	if !ok {
		return algorithm.Demand{}
	}
	return l.rows[i].demand.Times(stages[l.rows[i].stage].Factor)
}

// advance moves every row to the stage that its age has reached at now, and
// calls gone for hosts that are past the last.
func (l *ledger) advance(now time.Duration, stages []algorithm.Stage, gone func(host uint32)) {
	for stage := 0; stage <= len(l.aging) && stage < len(stages)-1; stage++ {
		from, q := stages[stage+1].From, l.queue(uint8(stage))
		for q.head != none && now-l.rows[q.head].last >= from {
			i := q.head
			r := &l.rows[i]
			l.sum.add(r.demand.Times(-stages[stage].Factor))
			l.sum.add(r.demand.Times(stages[stage+1].Factor))
			l.unlink(i)
			if stage+1 == len(stages)-1 {
				gone(r.host)
				l.release(i)
			} else {
				r.stage++
				l.link(i)
			}
			q = l.queue(uint8(stage)) // link may have moved the queues
		}
	}
	if len(l.index) == 0 {
		l.sum, l.aging = total{}, nil
	}
}

func (l *ledger) queue(stage uint8) *queue {
	if stage == 0 {
		return &l.fresh
	}
	for len(l.aging) < int(stage) {
		l.aging = append(l.aging, emptyQueue)
	}
	return &l.aging[stage-1]
}

// link puts row i at the end of its stage's queue.
func (l *ledger) link(i int32) {
	q, r := l.queue(l.rows[i].stage), &l.rows[i]
	r.prev, r.next = q.tail, none
	if q.tail == none {
		q.head = i
	} else {
		l.rows[q.tail].next = i
	}
	q.tail = i
}

func (l *ledger) unlink(i int32) {
	q, r := l.queue(l.rows[i].stage), &l.rows[i]
	if r.prev == none {
		q.head = r.next
	} else {
		l.rows[r.prev].next = r.next
	}
	if r.next == none {
		q.tail = r.prev
	} else {
		l.rows[r.next].prev = r.prev
	}
}

// take returns a free row, and release makes one free.
func (l *ledger) take() int32 {
	if i := l.empty; i != none {
		l.empty = l.rows[i].next
		return i
	}
	l.rows = append(l.rows, row{})
	return int32(len(l.rows) - 1)
}

func (l *ledger) release(i int32) {
	delete(l.index, l.rows[i].host)
	l.rows[i] = row{next: l.empty}
	l.empty = i
}

// all yields every row, always in the same order for the same history.
func (l *ledger) all(yield func(*row) bool) {
	for i := range l.rows {
		r := &l.rows[i]
		if at, ok := l.index[r.host]; ok && at == int32(i) && !yield(r) {
			return
		}
	}
}

// restage makes every row fresh, oldest report first: the next advance moves
// each to the stage of its age.
func (l *ledger) restage() {
	order := make([]int32, 0, len(l.index))
	for _, i := range l.index {
		order = append(order, i)
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Compare(l.rows[i].last, l.rows[j].last) })
	l.fresh, l.aging, l.sum = emptyQueue, nil, total{}
	for _, i := range order {
		l.rows[i].stage = 0
		l.link(i)
		l.sum.add(l.rows[i].demand)
	}
}
