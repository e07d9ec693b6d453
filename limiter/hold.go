// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync"
)

// Hold is slots that are held until they are released. Copies of it are the
// same Hold. The zero Hold holds nothing.
type Hold struct {
	of   holding
	turn uint64
}

// holding is what a Hold's slots came from.
type holding interface {
	// release gives back what is held under turn; a second time it does
	// nothing.
	release(turn uint64)
}

// Release gives the slots back. Only the first call does anything. It is safe
// for concurrent use.
func (h Hold) Release() {
	if h.of != nil {
		h.of.release(h.turn)
	}
}

// releaser is Release as a function.
func (h Hold) releaser() func() {
	if h.of == nil {
		return releaseNothing
	}
	return h.Release
}

func releaseNothing() {}

// With returns a Hold that releases h and other.
func (h Hold) With(other Hold) Hold {
	switch {
	case other.of == nil:
		return h
	case h.of == nil:
		return other
	}
	return Hold{of: &pair{h, other}}
}

// pair is two holds that end together.
type pair [2]Hold

func (p *pair) release(uint64) {
	p[0].Release()
	p[1].Release()
}

// onceReleased is the Hold of somebody's Limiter: a function, to be called once.
type onceReleased struct {
	once sync.Once
	f    func()
}

func (r *onceReleased) release(uint64) { r.once.Do(r.f) }

func holdOf(release func(), ok bool) Hold {
	if !ok || release == nil {
		return Hold{}
	}
	return Hold{of: &onceReleased{f: release}}
}

// Acquirer is a Stepper that counts slots in flight.
type Acquirer interface {
	// TryAcquireAt takes n slots if they are free.
	TryAcquireAt(now Instant, n int) (Hold, bool)

	// AcquireHold waits for n slots, as Limiter's Acquire does.
	AcquireHold(ctx context.Context, n int, options ...AcquireOption) (Hold, error)
}

// AcquireOption changes how one call of Acquire waits.
type AcquireOption func(*acquire)

// acquire is what the options of a call make.
type acquire struct{ priority int64 }

// Priority has a call that waits for slots served before those of lower
// priority; the default is 0. It has no meaning where a rule limits a rate.
func Priority(priority int64) AcquireOption {
	return func(a *acquire) { a.priority = priority }
}

func priorityOf(options []AcquireOption) int64 {
	var a acquire
	for _, o := range options {
		o(&a)
	}
	return a.priority
}
