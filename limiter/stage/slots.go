// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"errors"
)

// Errors of Slots.
var (
	// ErrFull means that too few slots are free.
	ErrFull = errors.New("too few slots are free")

	// ErrMoved means that other slots decide for the key now: look them up
	// again.
	ErrMoved = errors.New("other slots decide for the key now")
)

// Slots are what may be in flight at a time. They are safe for concurrent use.
type Slots interface {
	// TryAcquire takes n ≥ 1 slots if they are free and no caller waits for them.
	// The error is ErrFull or ErrMoved.
	TryAcquire(now Instant, n int64) (Hold, error)

	// Acquire waits for n ≥ 1 slots. Those of higher priority are served
	// first, and those of equal priority in order. The error is ctx's,
	// ErrMoved, or says why the slots will never be there.
	Acquire(ctx context.Context, n, priority int64) (Hold, error)

	// Level is what the slots are at now.
	Level(now Instant) Level
}

// Hold is slots that are held until they are released. Copies of it are the
// same Hold. The zero Hold holds nothing.
type Hold struct {
	of   Releaser
	turn uint64
}

// Releaser is what slots are given back to.
type Releaser interface {
	// Release gives back what is held under turn. Void does so too, and takes back
	// that it was counted. Only the first call of either does anything.
	Release(turn uint64)
	Void(turn uint64)
}

// NewHold returns the Hold of slots that of gave under turn.
func NewHold(of Releaser, turn uint64) Hold { return Hold{of, turn} }

// Release gives the slots back. Only the first call does anything. It is safe
// for concurrent use.
func (h Hold) Release() {
	if h.of != nil {
		h.of.Release(h.turn)
	}
}

// Void is Release as if the slots had never been taken: they do not count as used.
func (h Hold) Void() {
	if h.of != nil {
		h.of.Void(h.turn)
	}
}

// With returns a Hold that releases h and other.
func (h Hold) With(other Hold) Hold {
	switch {
	case other.of == nil:
		return h
	case h.of == nil:
		return other
	}
	return Hold{of: &both{h, other}}
}

// both is two holds that end together.
type both struct{ first, second Hold }

// Release implements Releaser.
func (b *both) Release(uint64) {
	b.first.Release()
	b.second.Release()
}

// Void implements Releaser.
func (b *both) Void(uint64) {
	b.first.Void()
	b.second.Void()
}
