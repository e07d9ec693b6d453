// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// napTime is how long a thread that watches a processor sleeps at a time, and napLate by how
	// much later it wakes where other threads have the processor.
	napTime = 10 * time.Millisecond
	napLate = 20 * time.Millisecond
)

// stalls are the times at which a processor ran none of this process's threads, though one of them
// was to wake: the hypervisor had taken the processor away, or a quota was used up. The kernel
// does not count that as waiting.
type stalls struct {
	mu   sync.Mutex // protects following fields
	woke map[int]time.Time
	late []stall
}

type stall struct {
	at    time.Time // when it was over
	cpu   int
	lasts time.Duration
}

// watchProcessors watches from its first call until the process ends.
var watchProcessors = sync.OnceValue(func() *stalls {
	s := &stalls{woke: make(map[int]time.Time)}
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return s
	}
	began := time.Now()
	for cpu := range 64 * len(set) {
		if set.IsSet(cpu) {
			s.woke[cpu] = began
			go s.watch(cpu)
		}
	}
	return s
})

// watch wakes a thread on a processor again and again.
func (s *stalls) watch(cpu int) {
	runtime.LockOSThread() // and never unlocked: no other goroutine is to run on this processor alone
	var one unix.CPUSet
	one.Set(cpu)
	if unix.SchedSetaffinity(0, &one) != nil {
		s.mu.Lock()
		delete(s.woke, cpu)
		s.mu.Unlock()
		return
	}
	for {
		nap := unix.NsecToTimespec(int64(napTime))
		_ = unix.Nanosleep(&nap, nil) // a signal ends it early
		s.mu.Lock()
		s.wakeLocked(time.Now(), cpu)
		s.mu.Unlock()
	}
}

// wakeLocked notes that the thread of a processor wakes. The caller holds mu.
func (s *stalls) wakeLocked(now time.Time, cpu int) {
	s.late = append(s.late, s.stallLocked(now, cpu)...)
	s.woke[cpu] = now
}

// stallLocked is the stall that ends now, if there is one. The caller holds mu.
func (s *stalls) stallLocked(now time.Time, cpu int) []stall {
	if lasts := now.Sub(s.woke[cpu]) - napTime; lasts > napLate {
		return []stall{{now, cpu, lasts}}
	}
	return nil
}

// since is how long a processor stood still since then at a time, and in all, each for the
// one that did for longest.
func (s *stalls) since(then time.Time) (longest, all time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()

	late, now := slices.Clone(s.late), time.Now()
	for cpu := range s.woke {
		late = append(late, s.stallLocked(now, cpu)...)
	}
	sum := make(map[int]time.Duration)
	for _, l := range late {
		if l.at.After(then) {
			longest, sum[l.cpu] = max(longest, l.lasts), sum[l.cpu]+l.lasts
			all = max(all, sum[l.cpu])
		}
	}
	return longest, all
}

// stalled reports whether a processor stood still for so long since then that owners answered
// late: once for 100 ms or more, or for a tenth of the time.
func stalled(then time.Time) bool {
	longest, all := watchProcessors().since(then)
	return longest >= 100*time.Millisecond || all > time.Since(then)/10
}

// A processor that is taken away is seen, while it is away and after.
func TestStallsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stalls{woke: map[int]time.Time{0: time.Now(), 1: time.Now()}}
		began := time.Now()
		wake := func(cpu int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wakeLocked(time.Now(), cpu)
		}
		for range 100 {
			time.Sleep(napTime + time.Millisecond)
			wake(0)
			wake(1)
		}
		if longest, all := s.since(began); longest != 0 || all != 0 {
			t.Errorf("nothing stood still, and it was %v at a time and %v in all", longest, all)
		}
		for range 2 {
			time.Sleep(napTime + 200*time.Millisecond)
			if longest, _ := s.since(began); longest != 200*time.Millisecond {
				t.Errorf("a processor stands still for 200ms: %v", longest)
			}
			wake(1)
			wake(0)
		}
		if longest, all := s.since(began); longest != 200*time.Millisecond || all != 400*time.Millisecond {
			t.Errorf("it was %v at a time and %v in all", longest, all)
		}
		if longest, all := s.since(time.Now()); longest != 0 || all != 0 {
			t.Errorf("what is over counts: %v, %v", longest, all)
		}
	})
}
