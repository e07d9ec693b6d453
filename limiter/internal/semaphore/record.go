// SPDX-License-Identifier: Apache-2.0

package semaphore

import "github.com/headgate/headgate/limiter/stage"

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
	var r *record
	if last := len(s.records) - 1; last >= 0 {
		r, s.records = s.records[last], s.records[:last]
	} else {
		r = &record{of: s}
	}
	r.n = n
	return stage.NewHold(r, r.turn)
}

// Release implements stage.Releaser.
func (r *record) Release(turn uint64) {
	s := r.of
	s.mu.Lock()
	if r.turn != turn {
		s.mu.Unlock()
		return
	}
	r.turn++
	n := r.n
	if len(s.records) < maxRecords {
		s.records = append(s.records, r)
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
