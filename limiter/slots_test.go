// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// queued starts a wait for slots in a bubble and returns once it waits or is
// over. The result is sent when it is over.
func queued(ctx context.Context, s *slots, n, priority int64) <-chan result {
	c := make(chan result, 1)
	go func() {
		h, err := s.wait(ctx, n, priority)
		c <- result{h, err}
	}()
	synctest.Wait()
	return c
}

type result struct {
	hold Hold
	err  error
}

// over tells what came of a wait; false if it goes on.
func over(c <-chan result) (result, bool) {
	synctest.Wait()
	select {
	case r := <-c:
		return r, true
	default:
		return result{}, false
	}
}

// dumb is slots without heaps: one list in the order of service.
type dumb struct {
	size, held int64
	waiting    []*dumbWaiter
}

type dumbWaiter struct{ id, n, priority int64 }

// serve returns who is served.
func (d *dumb) serve() (served []int64) {
	for {
		next := slices.IndexFunc(d.waiting, func(w *dumbWaiter) bool { return w.n <= d.size })
		if next < 0 || d.waiting[next].n > d.size-d.held {
			return served
		}
		d.held += d.waiting[next].n
		served = append(served, d.waiting[next].id)
		d.waiting = slices.Delete(d.waiting, next, next+1)
	}
}

func (d *dumb) try(n int64) bool {
	if slices.ContainsFunc(d.waiting, func(w *dumbWaiter) bool { return w.n <= d.size }) || n > d.size-d.held {
		return false
	}
	d.held += n
	return true
}

func (d *dumb) wait(id, n, priority int64) []int64 {
	at := slices.IndexFunc(d.waiting, func(w *dumbWaiter) bool { return w.priority < priority })
	if at < 0 {
		at = len(d.waiting)
	}
	d.waiting = slices.Insert(d.waiting, at, &dumbWaiter{id, n, priority})
	return d.serve()
}

func (d *dumb) leave(id int64) []int64 {
	d.waiting = slices.DeleteFunc(d.waiting, func(w *dumbWaiter) bool { return w.id == id })
	return d.serve()
}

func TestSlotsAgreeWithADumbVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var now Instant
		size := rapid.Int64Range(0, 12).Draw(t, "size")
		s, d := newSlots(size), &dumb{size: size}
		waiting, holds := make(map[int64]*waiter), make(map[int64]Hold)
		var id int64
		check := func(served []int64) {
			t.Helper()
			for _, id := range served {
				w := waiting[id]
				if delete(waiting, id); w == nil { // it did not even wait
					continue
				}
				if w.in != nil || w.err != nil {
					t.Fatalf("%d is not served: %v", id, w.err)
				}
				<-w.done
				holds[id] = w.hold
			}
			var wants int64
			for _, w := range d.waiting {
				if wants += w.n; waiting[w.id].in == nil {
					t.Fatalf("%d does not wait", w.id)
				}
			}
			if c := s.census(); c != (census{size: d.size, held: d.held, waiting: wants}) {
				t.Fatalf("%+v, want %+v and %d waiting", c, d, wants)
			}
		}
		one := func(ids []int64) int64 {
			slices.Sort(ids)
			return rapid.SampledFrom(ids).Draw(t, "id")
		}
		t.Repeat(map[string]func(*rapid.T){
			"try": func(t *rapid.T) {
				n := rapid.Int64Range(1, 6).Draw(t, "n")
				h, err := s.take(now, n)
				if got, want := err == nil, d.try(n); got != want {
					t.Fatalf("try %d: %v, want %v", n, got, want)
				}
				if id++; err == nil {
					holds[id] = h
				}
				check(nil)
			},
			"wait": func(t *rapid.T) {
				n := rapid.Int64Range(1, 14).Draw(t, "n")
				priority := rapid.Int64Range(-1, 1).Draw(t, "priority")
				id++
				h, w, err := s.join(n, priority)
				if err != nil {
					t.Fatal(err)
				}
				if w != nil {
					waiting[id] = w
				} else {
					holds[id] = h
				}
				served := d.wait(id, n, priority)
				if slices.Contains(served, id) != (w == nil) {
					t.Fatalf("waits: %v, served are %v", w != nil, served)
				}
				check(served)
			},
			"leave": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip()
				}
				id := one(keys(waiting))
				s.leave(waiting[id])
				delete(waiting, id)
				check(d.leave(id))
			},
			"release": func(t *rapid.T) {
				if len(holds) == 0 {
					t.Skip()
				}
				id := one(keys(holds))
				h := holds[id]
				d.held -= h.of.(*record).n
				delete(holds, id)
				h.Release()
				h.Release()
				check(d.serve())
			},
			"resize": func(t *rapid.T) {
				d.size = rapid.Int64Range(0, 14).Draw(t, "size")
				s.resize(d.size, unlimitedSlots)
				check(d.serve())
			},
		})
	})
}

func keys[V any](m map[int64]V) (ids []int64) {
	for id := range m {
		ids = append(ids, id)
	}
	return ids
}

func TestAReleaseOfLongAgoReleasesNobodyElses(t *testing.T) {
	s := newSlots(1)
	first, _ := s.take(0, 1)
	first.Release()
	second, err := s.take(0, 1)
	if err != nil || second.of != first.of {
		t.Fatalf("%v; the record is not used again", err)
	}
	first.Release()
	if c := s.census(); c.held != 1 {
		t.Errorf("%+v", c)
	}
}

func TestALargeNeedIsNotPassedBySmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(4)
		var holds []Hold
		for range 4 {
			h, _ := s.take(Now(), 1)
			holds = append(holds, h)
		}
		large := queued(t.Context(), s, 4, 0)
		small := queued(t.Context(), s, 1, 0)
		first := queued(t.Context(), s, 1, 1)
		holds[0].Release()
		h, ok := over(first)
		if !ok {
			t.Fatal("a higher priority is not first")
		}
		h.hold.Release()
		for _, h := range holds[1:] {
			if _, ok := over(small); ok {
				t.Error("a small need passed a large one")
			}
			if _, err := s.take(Now(), 1); err == nil {
				t.Error("a try passed a waiter")
			}
			h.Release()
		}
		r, ok := over(large)
		if !ok {
			t.Fatal("all slots are free, and who needs them waits")
		}
		r.hold.Release()
		if _, ok := over(small); !ok {
			t.Error("the small need waits")
		}
	})
}

func TestWhoLeavesLetsOthersPass(t *testing.T) {
	s := newSlots(3)
	if _, err := s.take(0, 2); err != nil {
		t.Fatal(err)
	}
	_, large, _ := s.join(2, 0)
	_, small, _ := s.join(1, 0)
	if large == nil || small == nil {
		t.Fatal("they do not wait")
	}
	s.leave(large)
	if c := s.census(); c.held != 3 || c.waiting != 0 {
		t.Errorf("%+v", c)
	}
	// Who is served in the moment in which it leaves holds nothing.
	s.leave(small)
	s.leave(large)
	if c := s.census(); c.held != 2 || c.waiting != 0 {
		t.Errorf("%+v", c)
	}
}

func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(0)
		ctx, cancel := context.WithCancel(t.Context())
		var over sync.WaitGroup
		for range maxWaiters {
			over.Go(func() { s.wait(ctx, 1, 0) })
		}
		synctest.Wait()
		if _, err := s.wait(ctx, 1, 9); !errors.Is(err, ErrTooManyWaiters) {
			t.Error(err)
		}
		cancel()
		over.Wait()
		if c := s.census(); c != (census{}) {
			t.Errorf("%+v are left", c)
		}
	})
}

func TestClosingSendsWaitersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		h, _ := s.take(Now(), 2)
		ready, large := queued(t.Context(), s, 1, 0), queued(t.Context(), s, 3, 0)
		s.close()
		for _, c := range []<-chan result{ready, large} {
			if r, ok := over(c); !ok || !errors.Is(r.err, errMoved) {
				t.Error(ok, r.err)
			}
		}
		if _, err := s.take(Now(), 1); !errors.Is(err, errMoved) {
			t.Error(err)
		}
		if _, err := s.wait(t.Context(), 1, 0); !errors.Is(err, errMoved) {
			t.Error(err)
		}
		if _, ok := newSlots(1).quick(1); !ok {
			t.Error("not even one")
		}
		s.resize(3, 3)
		if _, ok := s.quick(1); ok {
			t.Error("it goes on")
		}
		heir := newSlots(2)
		s.bequeath(heir)
		last := newSlots(2)
		heir.close()
		heir.bequeath(last)
		if c := last.census(); c.held != 2 {
			t.Errorf("the heir's heir counts %+v", c)
		}
		h.Release()
		for _, s := range []*slots{s, heir, last} {
			if c := s.census(); c.held != 0 || c.waiting != 0 {
				t.Errorf("%+v", c)
			}
		}
	})
}

// Races: what is held is never above size while nobody shrinks it, and all
// comes back.
func TestManyAtOnceHoldNoMoreThanThereIs(t *testing.T) {
	const size = 7
	s := newSlots(size)
	var held atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 2000 {
				n := int64((i+j)%3 + 1)
				ctx, cancel := context.WithCancel(context.Background())
				if j%5 == 0 {
					time.AfterFunc(time.Duration(j%50)*time.Microsecond, cancel)
				}
				h, err := s.wait(ctx, n, int64(j%2))
				if j%7 == 0 {
					if h, err := s.take(Now(), 1); err == nil {
						held.Add(1)
						held.Add(-1)
						h.Release()
					}
				}
				if err == nil {
					if held.Add(n) > size {
						t.Error("too many")
					}
					held.Add(-n)
					go h.Release()
					h.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if c := s.census(); c != (census{size: size}) {
		t.Errorf("%+v", c)
	}
}

// A slot that is taken and given back. What it costs is the clock, two locks
// and release, which is the one thing that is allocated.
func BenchmarkTryAcquire(b *testing.B) {
	k := NewGroup(snapshot(b, inFlightRule(1000)), 1).For("k")
	b.ReportAllocs()
	for b.Loop() {
		if release, ok := k.TryAcquire(1); ok {
			sink = release
			release()
		}
	}
}

func BenchmarkTryAcquireParallel(b *testing.B) {
	k := NewGroup(snapshot(b, inFlightRule(1000)), 1).For("k")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if release, ok := k.TryAcquire(1); ok {
				release()
			}
		}
	})
}

// sink makes what it is given escape, as callers do who keep it.
var sink func()

func TestATakenSlotAllocatesOnlyItsRelease(t *testing.T) {
	k := NewGroup(snapshot(t, inFlightRule(1000)), 1).For("k")
	allocs := testing.AllocsPerRun(1000, func() {
		sink, _ = k.TryAcquire(1)
		sink()
	})
	if allocs > 1 {
		t.Errorf("%v allocations", allocs)
	}
	if allocs := testing.AllocsPerRun(1000, func() {
		h, _ := k.TryAcquireAt(0, 1)
		h.Release()
	}); allocs > 0 {
		t.Errorf("%v allocations without a function", allocs)
	}
}
