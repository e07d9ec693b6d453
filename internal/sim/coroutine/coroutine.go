// SPDX-License-Identifier: Apache-2.0

// Package coroutine runs jobs that may wait, one at a time. It does not know what they wait
// for, and has no clock: its caller wakes them.
package coroutine

import "iter"

// Set is workers that run jobs of owners, such as the processes of hosts. One worker runs at
// a time, and who called it goes on when it waits. Use New. It is not safe for concurrent
// use.
type Set[O comparable] struct {
	ended   func(of O) bool
	workers []*worker[O]
	idle    []*worker[O]
	running *worker[O] // nil: none
	over    bool
}

// worker is a coroutine.
type worker[O comparable] struct {
	next  func() (struct{}, bool) // goes on until the job waits or ends
	end   func()
	yield func(struct{}) bool
	job   func() // nil: the worker is idle
	of    O
	turn  int32 // how often it has waited
}

// Turn is one wait of a worker, which Resume ends. The zero Turn is none.
type Turn[O comparable] struct {
	worker *worker[O]
	number int32
}

// Of is the owner of the job that waits.
func (t Turn[O]) Of() O { return t.worker.of }

// None reports whether t is the zero Turn.
func (t Turn[O]) None() bool { return t.worker == nil }

// New returns a Set without workers. ended reports whether an owner has ended: its jobs wait for
// nothing any more.
func New[O comparable](ended func(of O) bool) *Set[O] { return &Set[O]{ended: ended} }

// Len is how many workers there are, idle ones among them.
func (s *Set[O]) Len() int { return len(s.workers) }

// Gone reports whether an owner has ended, or the Set.
func (s *Set[O]) Gone(of O) bool { return s.over || s.ended(of) }

// Spawn runs a job of an owner, until it ends or waits.
func (s *Set[O]) Spawn(of O, job func()) {
	var w *worker[O]
	if n := len(s.idle); n > 0 {
		w = s.idle[n-1]
		s.idle = s.idle[:n-1]
	} else {
		w = newWorker[O]()
		s.workers = append(s.workers, w)
	}
	w.job, w.of = job, of
	s.goOn(w)
}

func newWorker[O comparable]() *worker[O] {
	w := new(worker[O])
	w.next, w.end = iter.Pull(func(yield func(struct{}) bool) {
		w.yield = yield
		for more := true; more; more = yield(struct{}{}) {
			w.job()
			w.job = nil
		}
	})
	return w
}

// goOn lets w go on until it waits or ends.
func (s *Set[O]) goOn(w *worker[O]) {
	before := s.running
	s.running = w
	w.next()
	if s.running = before; w.job == nil {
		s.idle = append(s.idle, w)
	}
}

// Turn is the next wait of the worker that runs; none if none does.
func (s *Set[O]) Turn() Turn[O] {
	if s.running == nil {
		return Turn[O]{}
	}
	return Turn[O]{s.running, s.running.turn}
}

// Wait makes the running worker wait until its Turn is resumed. The worker of an owner that
// is gone does not wait.
func (s *Set[O]) Wait() {
	w := s.running
	if !s.Gone(w.of) {
		w.yield(struct{}{})
	}
	w.turn++
}

// Resume lets a worker go on, if it waits in this Turn.
func (s *Set[O]) Resume(t Turn[O]) {
	if w := t.worker; w != nil && w.job != nil && w.turn == t.number {
		s.goOn(w)
	}
}

// Abandon ends the waits of an owner that is gone.
func (s *Set[O]) Abandon(of O) {
	for _, w := range s.workers {
		if w.job != nil && w.of == of {
			s.goOn(w)
		}
	}
}

// Close ends all workers.
func (s *Set[O]) Close() {
	s.over = true
	for _, w := range s.workers {
		if w.job != nil {
			s.goOn(w)
		}
		w.end()
	}
}
