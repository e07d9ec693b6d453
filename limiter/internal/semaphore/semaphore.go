// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/headgate/headgate/limiter/stage"
)

// Unlimited is a size that is never reached.
const Unlimited = math.MaxInt64

const (
	maxWaiters = 10_000 // of one Semaphore
	maxRecords = 1024   // kept for reuse, of one Semaphore
)

// Semaphore is a counting semaphore whose size changes while slots are held.
//
//	├─────────────── size ───────────────┤
//	├───────── held ─────────┼── free ───┤ ◀── ready: by priority, then by arrival
//	                                          oversized: each needs more than size
//
// Free slots go to the ready waiters in their order. While one is ready, no
// other caller gets slots, so small requests cannot starve a large one. A
// waiter that needs more than size is set aside until size grows, because no
// release can help it. When size shrinks, holders keep their slots, and no caller
// gets new ones until held is below size again.
//
// All methods are safe for concurrent use.
type Semaphore struct {
	short func(now stage.Instant, waits bool)

	mu        sync.Mutex // protects following fields, and those of all records
	size      int64
	most      int64 // the largest size that Resize may set
	held      int64 // more than size after a cut
	ready     queue
	oversized queue
	arrivals  uint64 // waiters so far
	demand    demand
	measured  stage.Instant // when Wants was last called
	starved   bool          // the result of that call
	wanted    float64       // the result of that call
	holds     holds
	closed    bool
	successor *Semaphore // counts what is held here, if not nil
}

// New returns a Semaphore of size free slots, at least 0. It calls short, if
// not nil, when a caller found too few free slots; waits says whether that
// caller waits for them. It holds no lock during the call.
func New(size int64, short func(now stage.Instant, waits bool)) *Semaphore {
	return &Semaphore{
		short: short, size: size, most: Unlimited,
		ready: queue{before: servedBefore}, oversized: queue{before: smallerThan},
	}
}

// TryAcquire takes n ≥ 1 slots if they are free and no waiter is ready. The
// error is stage.ErrFull, or stage.ErrMoved after Close or Transfer.
func (s *Semaphore) TryAcquire(now stage.Instant, n int64) (stage.Hold, error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return stage.Hold{}, stage.ErrMoved
	case n > s.most: // no host can have as many, so they are no demand
		s.mu.Unlock()
		return stage.Hold{}, stage.ErrFull
	case !s.freeLocked(n):
		s.demand.refuse(n)
		s.mu.Unlock()
		if s.short != nil {
			s.short(now, false)
		}
		return stage.Hold{}, stage.ErrFull
	}
	h := s.enterLocked(n)
	s.mu.Unlock()
	return h, nil
}

// TryAcquireFast is TryAcquire for callers that have not read the clock yet.
// After false nothing has changed and nothing is counted as refused: call
// TryAcquire.
func (s *Semaphore) TryAcquireFast(n int64) (h stage.Hold, ok bool) {
	s.mu.Lock()
	if ok = !s.closed && s.freeLocked(n); ok {
		h = s.enterLocked(n)
	}
	s.mu.Unlock()
	return h, ok
}

// Acquire waits until it can take n ≥ 1 slots. The error is ctx's,
// stage.ErrMoved after Close or Transfer or if that is the cause of ctx's end, stage.ErrNever if
// n is more than the size can become, or stage.ErrTooManyWaiters.
func (s *Semaphore) Acquire(ctx context.Context, n, priority int64) (stage.Hold, error) {
	if ctx.Err() != nil {
		return stage.Hold{}, ended(ctx)
	}
	h, w, err := s.join(n, priority)
	if w == nil {
		return h, err
	}
	if s.short != nil {
		s.short(stage.Now(), true)
	}
	select {
	case <-w.done:
		if ctx.Err() == nil {
			return w.hold, w.err
		}
		w.hold.Void() // both were ready, and select chose by chance
	case <-ctx.Done():
		s.leave(w)
	}
	return stage.Hold{}, ended(ctx)
}

// ended is the error of ctx, which has ended.
func ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), stage.ErrMoved) {
		return stage.ErrMoved
	}
	return ctx.Err()
}

// join takes n slots, or queues a waiter for them.
func (s *Semaphore) join(n, priority int64) (h stage.Hold, w *waiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case s.closed:
		return stage.Hold{}, nil, stage.ErrMoved
	case s.freeLocked(n):
		return s.enterLocked(n), nil, nil
	case n > s.most:
		return stage.Hold{}, nil, fmt.Errorf("the limit is %d: %w", s.most, stage.ErrNever)
	case s.ready.Len()+s.oversized.Len() >= maxWaiters:
		s.demand.refuse(n)
		return stage.Hold{}, nil, fmt.Errorf("%d wait already: %w", maxWaiters, stage.ErrTooManyWaiters)
	}
	s.demand.enter(n)
	w = &waiter{n: n, priority: priority, arrival: s.arrivals, done: make(chan struct{})}
	s.arrivals++
	if n > s.size {
		s.oversized.push(w)
	} else {
		s.ready.push(w)
	}
	s.serveLocked() // its priority may make it the first
	if w.in == nil {
		return w.hold, nil, nil
	}
	return stage.Hold{}, w, nil
}

// leave ends the wait of w. If w was served meanwhile, leave gives its slots back.
func (s *Semaphore) leave(w *waiter) {
	s.mu.Lock()
	if w.in == nil {
		s.mu.Unlock()
		w.hold.Void()
		return
	}
	s.removeLocked(w)
	s.serveLocked() // waiters behind w may fit
	s.mu.Unlock()
}

// removeLocked removes w, which was not served, from its queue.
func (s *Semaphore) removeLocked(w *waiter) {
	w.in.remove(w)
	if w.n > s.most {
		s.demand.suspend(-w.n)
	}
	s.demand.leave(w.n)
}

// Given is how many slots s has given to callers so far, without those that came back by stage.Hold.Void.
func (s *Semaphore) Given() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.holds.given
}

// Resize sets the size, which is at least 0, and the largest size that a later
// Resize may set, which is at least size. Waiters that need more than most
// keep waiting, and are no demand meanwhile; new ones get stage.ErrNever.
func (s *Semaphore) Resize(size, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if most != s.most {
		s.demand.suspend(s.ready.over(most) + s.oversized.over(most) - s.demand.suspended)
	}
	s.size, s.most = size, most
	for s.oversized.Len() > 0 && s.oversized.first().n <= size {
		w := s.oversized.first()
		s.oversized.remove(w)
		s.ready.push(w)
	}
	s.serveLocked()
}

// Close gives stage.ErrMoved to all waiters and to all later callers. Holders
// keep their slots.
func (s *Semaphore) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.closed = true
	s.dismissLocked()
}

func (s *Semaphore) dismissLocked() {
	for _, q := range []*queue{&s.ready, &s.oversized} {
		for q.Len() > 0 {
			w := q.first()
			s.removeLocked(w)
			w.finish(stage.Hold{}, stage.ErrMoved)
		}
	}
}

// Transfer closes s, and counts the slots that are held in s as held in to
// from now on, until they are released. Only the first Transfer of s does
// anything. to must not be s, nor have been transferred to s, directly or
// through others.
func (s *Semaphore) Transfer(to *Semaphore) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.closed = true
	s.dismissLocked()
	if s.successor != nil {
		return
	}
	// Locks are taken from predecessor to successor only.
	to.receive(s.held)
	s.demand.leave(s.held)
	s.held, s.successor = 0, to
}

// receive counts n slots as held that a predecessor has given. The
// predecessor's lock is held.
func (s *Semaphore) receive(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.successor != nil {
		s.successor.receive(n)
		return
	}
	s.held += n
	s.demand.enter(n)
}

func (s *Semaphore) freeLocked(n int64) bool { return n <= s.size-s.held && s.ready.Len() == 0 }

// enterLocked gives n free slots to a new caller.
func (s *Semaphore) enterLocked(n int64) stage.Hold {
	s.demand.enter(n)
	return s.holdLocked(n)
}

// serveLocked gives free slots to ready waiters.
func (s *Semaphore) serveLocked() {
	for s.ready.Len() > 0 {
		w := s.ready.first()
		switch {
		case w.n > s.size:
			s.ready.remove(w)
			s.oversized.push(w)
		case w.n > s.size-s.held:
			return
		default:
			s.ready.remove(w)
			w.finish(s.holdLocked(w.n), nil)
		}
	}
}
