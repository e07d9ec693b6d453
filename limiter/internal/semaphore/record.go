// SPDX-License-Identifier: Apache-2.0

package semaphore

import "github.com/headgate/headgate/limiter/stage"

// holds is what a Semaphore needs to know of the holds that it gave. The Semaphore's mu protects it.
type holds struct {
	given   int64     // see Semaphore.Given
	records []*record // for the next holds
}

// record is what a stage.Hold refers to. It serves one hold after another.
// Each hold has a turn of its own, so releasing one twice does nothing, even
// when the record serves another hold by then. The Semaphore's mu protects it.
type record struct {
	of   *Semaphore
	n    int64
	turn uint64 // increases at each release
}

// holdLocked counts n slots as held.
func (s *Semaphore) holdLocked(n int64) stage.Hold {
	s.held += n
	s.holds.given += n
	var r *record
	if last := len(s.holds.records) - 1; last >= 0 {
		r, s.holds.records = s.holds.records[last], s.holds.records[:last]
	} else {
		r = &record{of: s}
	}
	r.n = n
	return stage.NewHold(r, r.turn)
}

// Release implements stage.Releaser.
func (r *record) Release(turn uint64) { r.end(turn, false) }

// Void implements stage.Releaser.
func (r *record) Void(turn uint64) { r.end(turn, true) }

func (r *record) end(turn uint64, void bool) {
	s := r.of
	s.mu.Lock()
	if r.turn != turn {
		s.mu.Unlock()
		return
	}
	r.turn++
	if void {
		s.holds.given -= r.n
	}
	n := r.n
	if len(s.holds.records) < maxRecords {
		s.holds.records = append(s.holds.records, r)
	}
	s.giveBackAndUnlock(n)
}

// giveBackAndUnlock takes back n slots that s or a successor counts as held,
// and unlocks s.
func (s *Semaphore) giveBackAndUnlock(n int64) {
	for s.successor != nil {
		next := s.successor
		s.mu.Unlock()
		s = next
		s.mu.Lock()
	}
	s.held -= n
	s.demand.leave(n)
	s.serveLocked()
	s.mu.Unlock()
}
