// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// seats are slots of a fixed number.
type seats struct {
	size int64

	mu          sync.Mutex // protects following fields
	held, asked int64
	moved       bool
	changed     chan struct{} // closed when somebody may go on
}

var _ stage.Slots = (*seats)(nil)

func newSeats(size int64) *seats { return &seats{size: size, changed: make(chan struct{})} }

func (s *seats) TryAcquire(_ stage.Instant, n int64) (stage.Hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.asked++
	return s.takeLocked(n)
}

func (s *seats) takeLocked(n int64) (stage.Hold, error) {
	switch {
	case s.moved:
		return stage.Hold{}, stage.ErrMoved
	case n > s.size-s.held:
		return stage.Hold{}, stage.ErrFull
	}
	s.held += n
	return stage.NewHold(&taken{seats: s, n: n}, 0), nil
}

// taken is n seats.
type taken struct {
	seats *seats
	n     int64
	once  sync.Once
}

// Release implements stage.Releaser.
func (t *taken) Release(uint64) {
	t.once.Do(func() { t.seats.change(func() { t.seats.held -= t.n }) })
}

// Void implements stage.Releaser.
func (t *taken) Void(turn uint64) { t.Release(turn) }

func (s *seats) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()

	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *seats) Acquire(ctx context.Context, n, _ int64) (stage.Hold, error) {
	for {
		s.mu.Lock()
		hold, err := s.takeLocked(n)
		changed := s.changed
		s.mu.Unlock()
		if !errors.Is(err, stage.ErrFull) {
			return hold, err
		}
		select {
		case <-ctx.Done():
			return stage.Hold{}, ctx.Err()
		case <-changed:
		}
	}
}

func (s *seats) Level(stage.Instant) stage.Level {
	s.mu.Lock()
	defer s.mu.Unlock()

	return stage.Level{Burst: float64(s.size), Tokens: float64(s.size - s.held)}
}

func TestSlotsInEachMode(t *testing.T) {
	for _, tt := range []struct {
		mode             dynamicconfig.Mode
		got              int // of 9 that are asked for
		heldOld, heldNew int64
		counts           stage.Divergence
		level            float64
	}{
		{disabled, 9, 0, 0, stage.Divergence{}, math.Inf(1)},
		{old, 3, 3, 0, stage.Divergence{}, 3},
		{oldShadowNew, 3, 3, 3, stage.Divergence{Both: 3, OnlyNew: 6}, 3}, // what the old one refused does not go on
		{newShadowOld, 5, 3, 5, stage.Divergence{Both: 3, OnlyNew: 2, Neither: 4}, 5},
		{onlyNew, 5, 0, 5, stage.Divergence{}, 5},
		{99, 9, 0, 0, stage.Divergence{}, math.Inf(1)},
	} {
		o, n := newSeats(3), newSeats(5)
		p := NewSlotsPair(o, n, tt.mode)
		if level := p.Level(0); level.Burst != tt.level {
			t.Errorf("%v: the level is %+v", tt.mode, level)
		}
		var holds []stage.Hold
		for range 9 {
			h, err := p.TryAcquire(0, 1)
			switch {
			case err == nil:
				holds = append(holds, h)
			case !errors.Is(err, stage.ErrFull) || h != (stage.Hold{}):
				t.Errorf("%v: %v", tt.mode, err)
			}
		}
		if len(holds) != tt.got || o.held != tt.heldOld || n.held != tt.heldNew || p.Counts() != tt.counts {
			t.Errorf("%v: got %d, held %d and %d, %+v; want %+v", tt.mode, len(holds), o.held, n.held, p.Counts(), tt)
		}
		p.SetMode(oldShadowNew) // slots stay with whoever gave them
		for _, h := range holds {
			h.Release()
			h.Release()
		}
		if o.held != 0 || n.held != 0 {
			t.Errorf("%v: %d and %d are held for ever", tt.mode, o.held, n.held)
		}
	}
}

func TestWaitingForSlotsInEachMode(t *testing.T) {
	for _, mode := range modes[1:] {
		synctest.Test(t, func(t *testing.T) {
			o, n := newSeats(3), newSeats(5)
			p := NewSlotsPair(o, n, mode)
			first, err := p.Acquire(t.Context(), int64(p.Level(0).Burst), 0)
			if err != nil {
				t.Fatal(mode, err)
			}
			before := p.Counts()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := p.Acquire(ctx, 1, 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: %v", mode, err)
			}
			if _, err := p.Acquire(ctx, 1, 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: %v", mode, err)
			}
			if c := p.Counts(); c != before {
				t.Errorf("%v: callers that have gone count: %+v", mode, c)
			}
			done := make(chan stage.Hold, 1)
			go func() {
				h, err := p.Acquire(t.Context(), 2, 1)
				if err != nil {
					t.Error(mode, err)
				}
				done <- h
			}()
			synctest.Wait()
			first.Release()
			(<-done).Release()
			if o.held != 0 || n.held != 0 {
				t.Errorf("%v: %d and %d are held for ever", mode, o.held, n.held)
			}
		})
	}
}

func TestDisabledSlotsAreNeverWaitedFor(t *testing.T) {
	p := NewSlotsPair(newSeats(0), newSeats(0), disabled)
	if h, err := p.Acquire(t.Context(), 100, 0); err != nil || h != (stage.Hold{}) {
		t.Errorf("%v, %v", h, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Acquire(ctx, 1, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that had gone: %v", err)
	}
}

// The migration ends while a caller waits for a slot of the old side. The new
// side decides now: the caller asks it, and the pair does not ask it as well.
func TestAWaiterDoesNotHoldTwiceWhenTheMigrationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, n := newSeats(1), newSeats(5)
		p := NewSlotsPair(o, n, oldShadowNew)
		if _, err := p.TryAcquire(0, 1); err != nil {
			t.Fatal(err)
		}
		asked := n.asked
		done := make(chan error)
		go func() {
			_, err := p.Acquire(t.Context(), 1, 0)
			done <- err
		}()
		synctest.Wait()
		o.change(func() { o.moved = true })
		if err := <-done; !errors.Is(err, stage.ErrMoved) {
			t.Errorf("the error is %v", err)
		}
		if _, err := p.TryAcquire(0, 1); !errors.Is(err, stage.ErrMoved) {
			t.Errorf("the error is %v", err)
		}
		if n.asked != asked || n.held != 1 || p.Counts() != (stage.Divergence{Both: 1}) {
			t.Errorf("the new side was asked %d times and holds %d; %+v", n.asked-asked, n.held, p.Counts())
		}
	})
}

func TestAShadowThatHasMovedIsNotCompared(t *testing.T) {
	o, n := newSeats(5), newSeats(5)
	o.moved = true
	p := NewSlotsPair(o, n, newShadowOld)
	h, err := p.TryAcquire(0, 2)
	if err != nil || n.held != 2 || p.Counts() != (stage.Divergence{}) {
		t.Errorf("%v; held %d, %+v", err, n.held, p.Counts())
	}
	if h.Release(); n.held != 0 {
		t.Errorf("%d are held for ever", n.held)
	}
}

func TestASwitchKeepsWhatBothHold(t *testing.T) {
	o, n := newSeats(3), newSeats(5)
	p := NewSlotsPair(o, n, oldShadowNew)
	held, err := p.TryAcquire(0, 3)
	if err != nil {
		t.Fatal(err)
	}
	p.SetMode(newShadowOld)
	if _, err := p.TryAcquire(0, 3); !errors.Is(err, stage.ErrFull) {
		t.Errorf("the switch gave slots twice: %v", err)
	}
	held.Release()
	if _, err := p.TryAcquire(0, 5); err != nil {
		t.Errorf("slots did not come back: %v", err)
	}
}

func TestAWaiterFollowsTheModeOfAPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := newSeats(1), newSeats(1)
		p := NewSlotsPair(old, next, dynamicconfig.ModeOldShadowNew)
		h, err := p.TryAcquire(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		waits := make(chan stage.Hold, 1)
		go func() {
			if _, err := p.Acquire(t.Context(), 1, 0); !errors.Is(err, stage.ErrMoved) {
				t.Errorf("a slot of the side that answered before: %v", err)
			}
			h, err := p.Acquire(t.Context(), 1, 0)
			if err != nil {
				t.Error(err)
			}
			waits <- h
		}()
		synctest.Wait()
		p.SetMode(dynamicconfig.ModeNewShadowOld)
		h.Release()
		h = <-waits
		if old.held != 1 || next.held != 1 {
			t.Errorf("%d and %d are held, want both", old.held, next.held)
		}
		if _, err := p.TryAcquire(0, 1); !errors.Is(err, stage.ErrFull) {
			t.Errorf("two hold a slot of one: %v", err)
		}
		h.Release()
		if old.held != 0 || next.held != 0 {
			t.Errorf("%d and %d are held after all was released", old.held, next.held)
		}
	})
}
