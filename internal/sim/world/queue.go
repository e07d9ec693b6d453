// SPDX-License-Identifier: Apache-2.0

package world

import "github.com/headgate/headgate/internal/sim/traffic"

// kind says what an event is about.
type kind uint8

const (
	arrival   kind = iota // ref: stream
	traced                // the next row of the trace
	report                // who: host, ref: number of the schedule that it belongs to
	request               // who: owner, ref: message
	answer                // who: host, ref: message
	collect               // who: owner; ref: its process
	view                  // who: host, ref: version of the membership
	noticed               // who: host; it notices whom it reaches
	version               // ref: version of the membership: from now on it spreads
	configure             // who: host, ref: version of the config
	action                // ref: step of the scenario
	retries               // ref: try of a client that was rejected
	sample                // weights are looked at
	ascend                // who: owner, ref: its process; asks the cluster above, if need be
	claimed               // who: owner above, ref: message
	leased                // who: owner, ref: message
	lapse                 // who: owner, ref: number of the climb that is given up
	murmur                // who: host, ref: its process; tells others what it used
	hears                 // who: host, ref: message
	agreed                // who: host that told, ref: message
	hushed                // who: the same, ref: message that is given up
	asked                 // who: owner, ref: message
	replied               // who: host that asked, ref: message
	wakes                 // who: host, ref: message that has the worker
	runs                  // who: host, ref: message that has the job
)

// hasMessage tells whether the ref of an event at a host is a message.
func (k kind) hasMessage() bool {
	switch k {
	case request, answer, claimed, leased, hears, agreed, hushed, asked, replied, wakes, runs:
		return true
	}
	return false
}

// event is something that happens at a time. Events at the same time happen
// in the order in which they were pushed.
type event struct {
	at   traffic.Time
	seq  uint64
	who  int32
	ref  int32
	kind kind
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// queue is a binary heap of events.
type queue struct {
	heap []event
	seq  uint64
}

// push adds an event.
func (q *queue) push(at traffic.Time, k kind, who, ref int32) {
	q.seq++
	q.heap = append(q.heap, event{at: at, seq: q.seq, who: who, ref: ref, kind: k})
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.heap[i].before(&q.heap[up]) {
			return
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

// pop removes the next event. The queue must not be empty.
func (q *queue) pop() event {
	e := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	q.sink()
	return e
}

// again puts the first event back at a later time, which costs half of a pop
// and a push.
func (q *queue) again(at traffic.Time) {
	q.seq++
	q.heap[0].at, q.heap[0].seq = at, q.seq
	q.sink()
}

// sink restores the order below the first event.
func (q *queue) sink() {
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
