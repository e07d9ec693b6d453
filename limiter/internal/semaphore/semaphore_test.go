// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter/stage"
)

func TestMain(m *testing.M) { waittest.Main(m) }

type result struct {
	hold stage.Hold
	err  error
}

// acquire calls Acquire in a bubble, and returns when it waits or has returned.
func acquire(ctx context.Context, s *Semaphore, n, priority int64) <-chan result {
	c := make(chan result, 1)
	go func() {
		h, err := s.Acquire(ctx, n, priority)
		c <- result{h, err}
	}()
	synctest.Wait()
	return c
}

// over returns what an Acquire returned; false if it still waits.
func over(c <-chan result) (result, bool) {
	synctest.Wait()
	select {
	case r := <-c:
		return r, true
	default:
		return result{}, false
	}
}

func take(t *testing.T, s *Semaphore, n int64) stage.Hold {
	t.Helper()
	h, err := s.TryAcquire(0, n)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestALateReleaseDoesNotReleaseTheNextHold(t *testing.T) {
	s := New(1, nil)
	first := take(t, s, 1)
	first.Release()
	if len(s.holds.records) != 1 {
		t.Fatal("the record is not kept")
	}
	take(t, s, 1)
	if len(s.holds.records) != 0 {
		t.Fatal("the record is not used again")
	}
	first.Release()
	if c := s.Census(); c.Held != 1 {
		t.Errorf("%+v", c)
	}
}

func TestSmallRequestsDoNotPassALargeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(4, nil)
		var holds []stage.Hold
		for range 4 {
			holds = append(holds, take(t, s, 1))
		}
		large := acquire(t.Context(), s, 4, 0)
		small := acquire(t.Context(), s, 1, 0)
		first := acquire(t.Context(), s, 1, 1)
		holds[0].Release()
		r, ok := over(first)
		if !ok {
			t.Fatal("the highest priority is not served first")
		}
		r.hold.Release()
		for _, h := range holds[1:] {
			if _, ok := over(small); ok {
				t.Error("a small request passed a large one")
			}
			if _, err := s.TryAcquire(0, 1); !errors.Is(err, stage.ErrFull) {
				t.Errorf("a try passed a waiter: %v", err)
			}
			if _, ok := s.TryAcquireFast(1); ok {
				t.Error("a fast try passed a waiter")
			}
			h.Release()
		}
		r, ok = over(large)
		if !ok {
			t.Fatal("all slots are free, and the large request waits")
		}
		r.hold.Release()
		if _, ok := over(small); !ok {
			t.Error("the small request waits")
		}
	})
}

func TestAWaiterThatLeavesLetsOthersPass(t *testing.T) {
	s := New(3, nil)
	take(t, s, 2)
	_, large, _ := s.join(2, 0)
	_, small, _ := s.join(1, 0)
	if large == nil || small == nil {
		t.Fatal("they do not wait")
	}
	s.leave(large)
	if c := s.Census(); c.Held != 3 || c.Waiting != 0 {
		t.Errorf("%+v", c)
	}
	s.leave(small) // it was served at that moment
	s.leave(large)
	if c := s.Census(); c.Held != 2 || c.Waiting != 0 {
		t.Errorf("%+v", c)
	}
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Acquire(ended, 1, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("ended before: %v", err)
		}
		take(t, s, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx, 1, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended meanwhile: %v", err)
		}
		if c := s.Census(); c.Held != 1 || c.Waiting != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// Slots that become free after the context has ended are not taken, although
// the waiter then finds both.
func TestAcquireTakesNothingAfterItsContext(t *testing.T) {
	for range 64 {
		ctx, cancel := context.WithCancel(t.Context())
		var held stage.Hold
		s := New(1, func(stage.Instant, bool) { // before the caller waits
			cancel()
			held.Release()
		})
		held, _ = s.TryAcquire(0, 1)
		if h, err := s.Acquire(ctx, 1, 0); !errors.Is(err, context.Canceled) || h != (stage.Hold{}) {
			t.Fatalf("got a hold: %v, %v; want none and %v", h != (stage.Hold{}), err, context.Canceled)
		}
		if _, err := s.TryAcquire(0, 1); err != nil {
			t.Fatalf("the slot is lost: %v", err)
		}
	}
}

func TestAcquireMoreThanThereCanBe(t *testing.T) {
	s := New(2, nil)
	s.Resize(2, 4)
	if _, err := s.Acquire(t.Context(), 5, 0); !errors.Is(err, stage.ErrNever) {
		t.Error(err)
	}
	if _, w, err := s.join(4, 0); w == nil || err != nil {
		t.Errorf("4 of at most 4: %v", err)
	}
}

func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range maxWaiters {
			all.Go(func() { s.Acquire(ctx, 1, 0) })
		}
		synctest.Wait()
		if _, err := s.Acquire(ctx, 1, 9); !errors.Is(err, stage.ErrTooManyWaiters) {
			t.Error(err)
		}
		cancel()
		all.Wait()
		if c := s.Census(); c != (Census{}) {
			t.Errorf("%+v are left", c)
		}
	})
}

func TestShortIsCalledWhenSlotsAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		var s *Semaphore
		s = New(1, func(now stage.Instant, waits bool) {
			s.Census() // no lock is held
			calls = append(calls, fmt.Sprint(now == 1, waits))
		})
		h := take(t, s, 1)
		s.TryAcquireFast(1)
		if calls != nil {
			t.Errorf("%q before slots were missing", calls)
		}
		s.TryAcquire(1, 1)
		c := acquire(t.Context(), s, 1, 0)
		if want := []string{"true false", "false true"}; !slices.Equal(calls, want) {
			t.Errorf("%q, want %q", calls, want)
		}
		h.Release()
		over(c)
	})
}

func TestAClosedSemaphoreGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(2, nil)
		h := take(t, s, 2)
		ready, oversized := acquire(t.Context(), s, 1, 0), acquire(t.Context(), s, 3, 0)
		s.Close()
		for _, c := range []<-chan result{ready, oversized} {
			if r, ok := over(c); !ok || !errors.Is(r.err, stage.ErrMoved) {
				t.Error(ok, r.err)
			}
		}
		s.Resize(9, 9)
		if _, err := s.TryAcquire(0, 1); !errors.Is(err, stage.ErrMoved) {
			t.Error(err)
		}
		if _, err := s.Acquire(t.Context(), 1, 0); !errors.Is(err, stage.ErrMoved) {
			t.Error(err)
		}
		if _, ok := s.TryAcquireFast(1); ok {
			t.Error("it gives slots")
		}
		if c := s.Census(); c.Held != 2 {
			t.Errorf("%+v, want 2 held", c)
		}
		h.Release()
		if c := s.Census(); c.Busy() {
			t.Errorf("%+v", c)
		}
	})
}

func TestTransferredHoldsCountOnce(t *testing.T) {
	first, second, third := New(2, nil), New(2, nil), New(2, nil)
	all := []*Semaphore{first, second, third}
	wantHeld := func(want ...int64) {
		t.Helper()
		for i, s := range all {
			if c := s.Census(); c.Held != want[i] || c.Waiting != 0 {
				t.Errorf("semaphore %d: %+v, want %d held", i, c, want[i])
			}
		}
	}
	h := take(t, first, 2)
	second.Transfer(third)
	first.Transfer(second) // which is transferred already
	wantHeld(0, 0, 2)
	first.Transfer(New(2, nil)) // does nothing
	if _, err := third.TryAcquire(0, 1); !errors.Is(err, stage.ErrFull) {
		t.Error(err)
	}
	h.Release()
	h.Release()
	wantHeld(0, 0, 0)
}

// Callers never hold more slots than the size, and all slots come back.
func TestConcurrentCallersHoldAtMostTheSize(t *testing.T) {
	const size = 7
	s := New(size, nil)
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
				h, err := s.Acquire(ctx, n, int64(j%2))
				if j%7 == 0 {
					if h, err := s.TryAcquire(0, 1); err == nil {
						held.Add(1)
						held.Add(-1)
						h.Release()
					}
				}
				if err == nil {
					if held.Add(n) > size {
						t.Error("more slots are held than there are")
					}
					held.Add(-n)
					all.Go(h.Release)
					h.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if c := s.Census(); c != (Census{Size: size}) {
		t.Errorf("%+v", c)
	}
}

// Holds that are released while their semaphore is transferred are released.
func TestReleasesDuringTransfers(t *testing.T) {
	s := New(Unlimited, nil)
	var all sync.WaitGroup
	for range 100 {
		h := take(t, s, 1)
		all.Go(h.Release)
		next := New(Unlimited, nil)
		all.Go(h.Release)
		s.Transfer(next)
		s = next
	}
	all.Wait()
	if c := s.Census(); c != (Census{Size: Unlimited}) {
		t.Errorf("%+v", c)
	}
}

func TestAReusedHoldAllocatesNothing(t *testing.T) {
	s := New(1, nil)
	if n := testing.AllocsPerRun(1000, func() {
		h, _ := s.TryAcquire(0, 1)
		h.Release()
		h, _ = s.TryAcquireFast(1)
		h.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheLastDemandDecidesWhatIsIdle(t *testing.T) {
	s := New(1, nil)
	h := take(t, s, 1)
	s.TryAcquire(0, 1)
	if got := s.Wants(0); got != 2 {
		t.Errorf("wants %v, want 2", got)
	}
	if c := s.Census(); !c.Starved || c.Wanted != 2 || !c.Busy() || c.Free() != 0 {
		t.Errorf("%+v", c)
	}
	h.Release()
	if c := s.Census(); c.Busy() || c.Idle() {
		t.Errorf("%+v: it was busy lately", c)
	}
	later := stage.Instant(0).Add(time.Minute)
	s.Wants(later)
	if got := s.Wants(later.Add(time.Minute)); got != 0 || !s.Census().Idle() || s.Census().Starved {
		t.Errorf("wants %v, %+v", got, s.Census())
	}
}

func BenchmarkTryAcquire(b *testing.B) {
	s := New(1000, nil)
	b.ReportAllocs()
	for b.Loop() {
		h, _ := s.TryAcquireFast(1)
		h.Release()
	}
}

func BenchmarkTryAcquireParallel(b *testing.B) {
	s := New(1000, nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h, _ := s.TryAcquireFast(1)
			h.Release()
		}
	})
}

// Waiters leave because other slots decide for them.
func TestWaitersThatMovedLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, nil)
		hold, _ := s.TryAcquire(0, 1)
		ctx, end := context.WithCancelCause(t.Context())
		moved := make(chan error, 2)
		for n := range int64(2) { // one of them needs more than there is
			go func() {
				_, err := s.Acquire(ctx, n+1, 0)
				moved <- err
			}()
		}
		synctest.Wait()
		end(stage.ErrMoved)
		for range cap(moved) {
			if err := <-moved; !errors.Is(err, stage.ErrMoved) {
				t.Error(err)
			}
		}
		if c := s.Census(); c.Held != 1 || c.Waiting != 0 {
			t.Errorf("%+v", c)
		}
		time.AfterFunc(time.Second, hold.Release)
		if _, err := s.Acquire(t.Context(), 1, 0); err != nil {
			t.Error(err)
		}
	})
}
