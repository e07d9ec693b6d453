// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/stage"
)

// naive is a Semaphore without heaps, records or successors: one list of
// waiters in the order of service, which it searches.
type naive struct {
	size, most, held int64
	waiters          []naiveWaiter
}

type naiveWaiter struct{ id, n, priority int64 }

func (s *naive) fits(w naiveWaiter) bool { return w.n <= s.size }

func (s *naive) try(n int64) bool {
	if slices.ContainsFunc(s.waiters, s.fits) || n > s.size-s.held {
		return false
	}
	s.held += n
	return true
}

// wait queues a waiter and returns the IDs of the waiters that are served.
func (s *naive) wait(id, n, priority int64) []int64 {
	at := slices.IndexFunc(s.waiters, func(w naiveWaiter) bool { return w.priority < priority })
	if at < 0 {
		at = len(s.waiters)
	}
	s.waiters = slices.Insert(s.waiters, at, naiveWaiter{id, n, priority})
	return s.serve()
}

func (s *naive) leave(id int64) []int64 {
	s.waiters = slices.DeleteFunc(s.waiters, func(w naiveWaiter) bool { return w.id == id })
	return s.serve()
}

func (s *naive) release(n int64) []int64 {
	s.held -= n
	return s.serve()
}

func (s *naive) resize(size, most int64) []int64 {
	s.size, s.most = size, most
	return s.serve()
}

func (s *naive) serve() (served []int64) {
	for {
		next := slices.IndexFunc(s.waiters, s.fits)
		if next < 0 || s.waiters[next].n > s.size-s.held {
			return served
		}
		s.held += s.waiters[next].n
		served = append(served, s.waiters[next].id)
		s.waiters = slices.Delete(s.waiters, next, next+1)
	}
}

// held is a Hold and how many slots it is for.
type held struct {
	hold stage.Hold
	n    int64
}

// pair is a Semaphore and its naive twin.
type pair struct {
	s       *Semaphore
	twin    *naive
	old     []*Semaphore // that were transferred
	waiting map[int64]*waiter
	holds   map[int64]held
	id      int64 // the last one
}

// check compares the two after the twin served some waiters.
func (p *pair) check(t *rapid.T, served []int64) {
	t.Helper()
	for _, id := range served {
		w := p.waiting[id]
		if delete(p.waiting, id); w == nil { // it was served at once
			continue
		}
		if w.in != nil || w.err != nil {
			t.Fatalf("waiter %d is not served: %v", id, w.err)
		}
		<-w.done
		p.holds[id] = held{w.hold, w.n}
	}
	var slots, inVain int64
	for _, w := range p.twin.waiters {
		if w.n > p.twin.most {
			inVain += w.n
		}
		if slots += w.n; p.waiting[w.id].in == nil {
			t.Fatalf("waiter %d does not wait", w.id)
		}
	}
	c := p.s.Census()
	if passed := !slices.ContainsFunc(p.twin.waiters, p.twin.fits); passed != (c.Aside == c.Waiting) {
		t.Fatalf("of %d slots that are waited for, %d let others pass: %+v", c.Waiting, c.Aside, p.twin)
	}
	c.Aside = 0
	if c != (Census{Size: p.twin.size, Held: p.twin.held, Waiting: slots, InVain: inVain}) {
		t.Fatalf("%+v, want %+v with %d slots waited for", c, p.twin, slots)
	}
	for _, s := range p.old {
		if c := s.Census(); c.Busy() {
			t.Fatalf("a transferred semaphore has %+v", c)
		}
	}
}

func one[V any](t *rapid.T, m map[int64]V) int64 {
	if len(m) == 0 {
		t.Skip("there is none")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(t, "id")
}

func TestDoesWhatANaiveSemaphoreDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, 12).Draw(t, "size")
		p := &pair{
			s: New(size, nil), twin: &naive{size: size, most: Unlimited},
			waiting: make(map[int64]*waiter), holds: make(map[int64]held),
		}
		try := func(t *rapid.T, try func(n int64) (stage.Hold, bool)) {
			n := rapid.Int64Range(1, 6).Draw(t, "n")
			h, ok := try(n)
			if want := p.twin.try(n); ok != want || ok == (h == stage.Hold{}) {
				t.Fatalf("try %d: %v, want %v", n, ok, want)
			}
			if p.id++; ok {
				p.holds[p.id] = held{h, n}
			}
			p.check(t, nil)
		}
		t.Repeat(map[string]func(*rapid.T){
			"try": func(t *rapid.T) {
				try(t, func(n int64) (stage.Hold, bool) {
					h, err := p.s.TryAcquire(0, n)
					if err != nil && !errors.Is(err, stage.ErrFull) {
						t.Fatal(err)
					}
					return h, err == nil
				})
			},
			"try fast": func(t *rapid.T) { try(t, p.s.TryAcquireFast) },
			"wait": func(t *rapid.T) {
				n := rapid.Int64Range(1, 14).Draw(t, "n")
				priority := rapid.Int64Range(-1, 1).Draw(t, "priority")
				h, w, err := p.s.join(n, priority)
				if never := n > p.twin.most; never != (err != nil) {
					t.Fatalf("wait for %d of at most %d: %v", n, p.twin.most, err)
				} else if never {
					return
				}
				p.id++
				if w != nil {
					p.waiting[p.id] = w
				} else {
					p.holds[p.id] = held{h, n}
				}
				served := p.twin.wait(p.id, n, priority)
				if slices.Contains(served, p.id) != (w == nil) {
					t.Fatalf("waits: %v, but the twin served %v", w != nil, served)
				}
				p.check(t, served)
			},
			"leave": func(t *rapid.T) {
				id := one(t, p.waiting)
				p.s.leave(p.waiting[id])
				delete(p.waiting, id)
				p.check(t, p.twin.leave(id))
			},
			"release": func(t *rapid.T) {
				id := one(t, p.holds)
				h := p.holds[id]
				delete(p.holds, id)
				h.hold.Release()
				h.hold.Release() // does nothing
				p.check(t, p.twin.release(h.n))
			},
			"resize": func(t *rapid.T) {
				size := rapid.Int64Range(0, 14).Draw(t, "size")
				most := size + rapid.Int64Range(0, 4).Draw(t, "most-size")
				p.s.Resize(size, most)
				p.check(t, p.twin.resize(size, most))
			},
			"transfer": func(t *rapid.T) {
				size := rapid.Int64Range(0, 12).Draw(t, "size")
				next := New(size, nil)
				p.s.Transfer(next)
				for id, w := range p.waiting {
					if <-w.done; !errors.Is(w.err, stage.ErrMoved) {
						t.Fatalf("waiter %d: %v", id, w.err)
					}
				}
				clear(p.waiting)
				p.old, p.s = append(p.old, p.s), next
				p.twin.size, p.twin.most, p.twin.waiters = size, Unlimited, nil
				p.check(t, nil)
			},
		})
	})
}
