// SPDX-License-Identifier: Apache-2.0

// Package timeline keeps the events of a run in the order of their times. It does not know what
// happens in them.
package timeline

import "github.com/headgate/headgate/internal/sim/traffic"

// Kind says what an event is about.
type Kind uint8

// Event is something that happens at a time. Events at the same time happen
// in the order in which they were pushed.
type Event struct {
	At  traffic.Time
	seq uint64
	// Who and Ref say who takes part and what in, as each Kind has it.
	Who, Ref int32
	Kind     Kind
}

func (e *Event) before(f *Event) bool { return e.At < f.At || e.At == f.At && e.seq < f.seq }

// Queue is a binary heap of events. The zero Queue is empty.
type Queue struct {
	heap []Event
	seq  uint64
}

// Push adds an event.
func (q *Queue) Push(at traffic.Time, k Kind, who, ref int32) {
	q.seq++
	q.heap = append(q.heap, Event{At: at, seq: q.seq, Who: who, Ref: ref, Kind: k})
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.heap[i].before(&q.heap[up]) {
			return
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

// Len is the number of events to come.
func (q *Queue) Len() int { return len(q.heap) }

// First is the next event. The queue must not be empty.
func (q *Queue) First() Event { return q.heap[0] }

// Pop removes the next event. The queue must not be empty.
func (q *Queue) Pop() Event {
	e := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	q.sink()
	return e
}

// Again puts the first event back at a later time, which costs half of a pop
// and a push.
func (q *Queue) Again(at traffic.Time) {
	q.seq++
	q.heap[0].At, q.heap[0].seq = at, q.seq
	q.sink()
}

// sink restores the order below the first event.
func (q *Queue) sink() {
	n := len(q.heap)
	for i := 0; ; {
		first := i
		if l := 2*i + 1; l < n && q.heap[l].before(&q.heap[first]) {
			first = l
		}
		if r := 2*i + 2; r < n && q.heap[r].before(&q.heap[first]) {
			first = r
		}
		if first == i {
			return
		}
		q.heap[i], q.heap[first] = q.heap[first], q.heap[i]
		i = first
	}
}
