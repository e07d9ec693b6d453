// SPDX-License-Identifier: Apache-2.0

package limiter

import "sync/atomic"

// ring is a queue of events of a fixed size. Many put events in without a lock
// and without waiting, one takes them out. What does not fit is dropped.
//
// Each place has a turn: even, 2·lap, when it is free for that lap, odd when
// it holds an event. Who moves tail on owns the place there until it sets the
// turn; that orders the event before it is read.
type ring struct {
	places []place
	tail   atomic.Uint64 // where the next one is put
	_      [56]byte      // tail is written by many, head is not
	head   uint64        // where the next one is taken from
}

type place struct {
	turn  atomic.Uint64
	event Event
}

// newRing returns a ring of size places, a power of two.
func newRing(size int) *ring { return &ring{places: make([]place, size)} }

// put adds e, or tells that there is no room.
func (r *ring) put(e *Event) bool {
	size := uint64(len(r.places))
	for {
		at := r.tail.Load()
		p := &r.places[at&(size-1)]
		free := at / size * 2
		switch turn := p.turn.Load(); {
		case turn == free:
			if r.tail.CompareAndSwap(at, at+1) {
				p.event = *e
				p.turn.Store(free + 1)
				return true
			}
		case turn < free: // the event of the lap before is there still
			return false
		}
	}
}

// ready tells whether there is something to take.
func (r *ring) ready() bool {
	size := uint64(len(r.places))
	return r.places[r.head&(size-1)].turn.Load() == r.head/size*2+1
}

// take adds what there is to batch, up to its capacity. One caller at a time.
func (r *ring) take(batch []Event) []Event {
	size := uint64(len(r.places))
	for len(batch) < cap(batch) && r.ready() {
		p := &r.places[r.head&(size-1)]
		batch = append(batch, p.event)
		p.event = Event{} // lets go of its strings
		p.turn.Add(1)
		r.head++
	}
	return batch
}
