// SPDX-License-Identifier: Apache-2.0

package coroutine

import (
	"slices"
	"testing"
)

func TestJobsWaitUntilTheirTurnIsResumed(t *testing.T) {
	var did []string
	gone := map[int]bool{}
	s := New(func(of int) bool { return gone[of] })
	turns := make(map[int]Turn[int])
	for of := range 3 {
		s.Spawn(of, func() {
			did = append(did, "begins")
			turns[of] = s.Turn()
			s.Wait()
			did = append(did, "ends")
		})
	}
	s.Resume(turns[1])
	s.Resume(turns[1]) // it waits no more
	s.Resume(Turn[int]{})
	if want := []string{"begins", "begins", "begins", "ends"}; !slices.Equal(did, want) {
		t.Errorf("%v, want %v", did, want)
	}
	s.Spawn(3, func() {})
	if s.Len() != 3 || !s.Turn().None() || turns[2].Of() != 2 {
		t.Errorf("%d workers", s.Len())
	}
	gone[0] = true
	s.Abandon(0)
	s.Spawn(0, s.Wait) // whose owner is gone
	s.Close()
	if len(did) != 6 || !s.Gone(2) {
		t.Errorf("not all jobs have ended: %v", did)
	}
}
