// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
)

// slots is a counting semaphore whose size changes under it.
//
//	├─────────────── size ───────────────┤
//	├───────── held ─────────┼── free ───┤ ◀── ready: by priority, then in order
//	                                          large: need more than size
//
// Free slots go to who is ready, first come first served, and nobody enters
// while somebody is: so one who needs many slots is not passed for ever by
// those who need few. One who needs more than size stands aside until size
// grows, because no slot that others give back can help it. When size
// shrinks, holders keep what they have and nobody enters until they fit.
//
// All methods are safe for concurrent use.
type slots struct {
	// short is called, with no lock held, when somebody found too few slots;
	// waits tells whether it waits for them. nil calls nobody.
	short func(now Instant, waits bool)

	mu      sync.Mutex // protects following fields, and every record's
	size    int64
	most    int64 // that size may ever be, by the rule
	held    int64 // more than size after a cut
	ready   waiters
	large   waiters
	arrived uint64 // waiters, ever
	seen    observed
	looked  Instant   // at seen
	starved bool      // there were too few, before that
	wanted  float64   // at that time
	records []*record // for the next holders
	closed  bool      // somebody else decides
	heir    *slots    // if not nil, counts what is held
}

const (
	// unlimitedSlots is a size that nobody fills.
	unlimitedSlots = math.MaxInt64

	// maxWaiters bounds those who wait for one key's slots on one host.
	maxWaiters = 10_000

	// maxRecords bounds the records that are kept for the next holders.
	maxRecords = 1024
)

var (
	errFull  = errors.New("too few slots are free")
	errMoved = errors.New("somebody else decides")
)

// newSlots returns size free slots.
func newSlots(size int64) *slots {
	return &slots{size: size, most: unlimitedSlots, ready: waiters{before: byTurn}, large: waiters{before: byNeed}}
}

// record is of slots that are held. It serves one holder after the other, each
// with a turn of its own.
type record struct {
	of   *slots
	n    int64
	turn uint64 // moves on when the slots are given back
}

// quick is take for when there is nothing else to do: false says nothing.
func (s *slots) quick(n int64) (h Hold, ok bool) {
	s.mu.Lock()
	if ok = s.freeLocked(n) && !s.closed; ok {
		s.seen.enter(n)
		h = s.giveLocked(n)
	}
	s.mu.Unlock()
	return h, ok
}

// take takes n slots if they are free and nobody is ready. The error is
// errFull or errMoved.
func (s *slots) take(now Instant, n int64) (Hold, error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return Hold{}, errMoved
	case !s.freeLocked(n):
		s.seen.refuse(n)
		s.mu.Unlock()
		if s.short != nil {
			s.short(now, false)
		}
		return Hold{}, errFull
	}
	s.seen.enter(n)
	h := s.giveLocked(n)
	s.mu.Unlock()
	return h, nil
}

func (s *slots) freeLocked(n int64) bool { return n <= s.size-s.held && s.ready.Len() == 0 }

// giveLocked lets n slots be held.
func (s *slots) giveLocked(n int64) Hold {
	s.held += n
	var r *record
	if last := len(s.records) - 1; last >= 0 {
		r, s.records = s.records[last], s.records[:last]
	} else {
		r = &record{of: s}
	}
	r.n = n
	return Hold{r, r.turn}
}

// wait takes n slots when they are free and nobody is before it. It returns
// ctx's error when ctx ends, and those of join.
func (s *slots) wait(ctx context.Context, n, priority int64) (Hold, error) {
	h, w, err := s.join(n, priority)
	if w == nil {
		return h, err
	}
	if s.short != nil {
		s.short(Now(), true)
	}
	select {
	case <-w.done:
		return w.hold, w.err
	case <-ctx.Done():
		s.leave(w)
		return Hold{}, ctx.Err()
	}
}

// join takes n slots, or else waits for them, as w. The error is ErrNever when
// there are never as many, ErrTooManyWaiters when it would be one too many,
// and errMoved when somebody else decides.
func (s *slots) join(n, priority int64) (h Hold, w *waiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case s.closed:
		return Hold{}, nil, errMoved
	case s.freeLocked(n):
		s.seen.enter(n)
		return s.giveLocked(n), nil, nil
	case n > s.most:
		return Hold{}, nil, fmt.Errorf("the limit is %d: %w", s.most, ErrNever)
	case s.ready.Len()+s.large.Len() >= maxWaiters:
		s.seen.refuse(n)
		return Hold{}, nil, fmt.Errorf("%d wait already: %w", maxWaiters, ErrTooManyWaiters)
	}
	s.seen.enter(n)
	w = &waiter{n: n, priority: priority, arrived: s.arrived, done: make(chan struct{})}
	s.arrived++
	s.queueLocked(w)
	s.serveLocked() // it may be the first, by its priority
	if w.in == nil {
		return w.hold, nil, nil
	}
	return Hold{}, w, nil
}

func (s *slots) queueLocked(w *waiter) {
	if w.n > s.size {
		s.large.push(w)
	} else {
		s.ready.push(w)
	}
}

// leave has w not wait any more, nor hold if it was served just now.
func (s *slots) leave(w *waiter) {
	s.mu.Lock()
	if w.in == nil {
		s.mu.Unlock()
		w.hold.Release()
		return
	}
	w.in.remove(w)
	s.seen.leave(w.n)
	s.serveLocked() // those behind it may fit
	s.mu.Unlock()
}

// serveLocked gives free slots to who is ready.
func (s *slots) serveLocked() {
	for s.ready.Len() > 0 {
		w := s.ready.first()
		switch {
		case w.n > s.size:
			s.ready.remove(w)
			s.large.push(w)
		case w.n > s.size-s.held:
			return
		default:
			s.ready.remove(w)
			w.end(s.giveLocked(w.n), nil)
		}
	}
}

// release implements holding. Only the first call of a turn does anything.
func (r *record) release(turn uint64) {
	s := r.of
	s.mu.Lock()
	if r.turn != turn {
		s.mu.Unlock()
		return
	}
	r.turn++
	n, heir := r.n, s.heir
	if len(s.records) < maxRecords {
		s.records = append(s.records, r)
	}
	if heir == nil {
		s.backLocked(n)
	}
	s.mu.Unlock()
	if heir != nil {
		heir.back(n)
	}
}

// backLocked takes n slots back that were held.
func (s *slots) backLocked(n int64) {
	s.seen.leave(n)
	s.held -= n
	s.serveLocked()
}

// back is backLocked for slots that s or its heir counts.
func (s *slots) back(n int64) {
	s.mu.Lock()
	heir := s.heir
	if heir == nil {
		s.backLocked(n)
	}
	s.mu.Unlock()
	if heir != nil {
		heir.back(n)
	}
}

// resize changes the size, which is at least 0 and at most most.
func (s *slots) resize(size, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.size, s.most = size, most
	for s.large.Len() > 0 && s.large.first().n <= size {
		w := s.large.first()
		s.large.remove(w)
		s.ready.push(w)
	}
	s.serveLocked()
}

// close sends whoever waits, or comes from now on, to who decides instead.
// Those who hold slots keep them.
func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.closed = true
	for _, q := range []*waiters{&s.ready, &s.large} {
		for q.Len() > 0 {
			w := q.first()
			q.remove(w)
			s.seen.leave(w.n)
			w.end(Hold{}, errMoved)
		}
	}
}

// bequeath has what is held in s, which is closed, count in heir from now on.
func (s *slots) bequeath(heir *slots) {
	s.mu.Lock()
	defer s.mu.Unlock()

	// Locks are taken from old to new only.
	heir.mu.Lock()
	heir.held += s.held
	heir.seen.enter(s.held)
	heir.mu.Unlock()
	s.seen.leave(s.held)
	s.held, s.heir = 0, heir
}

// census is a reading of slots.
type census struct {
	size, held int64
	waiting    int64 // slots that are waited for
	starved    bool  // there were too few, when that was last looked at
	wanted     float64
}

func (c census) free() int64 { return c.size - c.held }

func (c census) busy() bool { return c.held > 0 || c.waiting > 0 }

// idle: there is nobody, nor was there lately, as the decider knows.
func (c census) idle() bool { return !c.busy() && c.wanted == 0 }

func (s *slots) census() census {
	s.mu.Lock()
	defer s.mu.Unlock()

	return census{s.size, s.held, s.seen.level - s.held, s.starved, s.wanted}
}

// wants is the demand at now, as observed since the last call.
func (s *slots) wants(now Instant) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.starved = s.seen.refused > 0 || s.ready.Len()+s.large.Len() > 0
	seconds := now.Sub(s.looked).Seconds()
	s.looked = now
	s.wanted = s.seen.wants(seconds)
	return s.wanted
}
