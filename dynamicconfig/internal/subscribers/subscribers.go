// SPDX-License-Identifier: Apache-2.0

// Package subscribers calls those who subscribed with each change, one call at a time and in the
// order of changes. It does not know what changes. One lock guards the list, and is not held
// during a call.
package subscribers

import (
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// Of are the subscribers to changes of type C, and the changes that are not delivered to them yet.
// The zero Of has none. It is safe for concurrent use.
type Of[C any] struct {
	mu         sync.Mutex       // guards what follows
	all        []*subscriber[C] // copied on write
	pending    []telling[C]
	delivering bool
}

type subscriber[C any] struct {
	call      func(C)
	cancelled atomic.Bool // only ever set; a call may have begun before
}

// telling is a change, and who subscribed before it.
type telling[C any] struct {
	change C
	to     []*subscriber[C]
}

// Add has call called with each change that comes later. cancel ends it; one call may still be
// running when cancel returns.
func (o *Of[C]) Add(call func(C)) (cancel func()) {
	s := &subscriber[C]{call: call}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(slices.Clone(o.all), s)
	return func() {
		s.cancelled.Store(true)
		o.mu.Lock()
		defer o.mu.Unlock()
		if i := slices.Index(o.all, s); i >= 0 {
			o.all = slices.Delete(slices.Clone(o.all), i, i+1)
		}
	}
}

// Change is the next change. Deliver delivers it. A caller that keeps what is current stores that
// first: who subscribes and reads it then misses nothing.
func (o *Of[C]) Change(c C) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = append(o.pending, telling[C]{c, o.all})
}

// Deliver delivers to the subscribers what is pending, unless someone is at it already: then that one
// goes on with it. Hold no lock that a subscriber may take. A panic of a subscriber, which may be the
// service's own, is logged, and the others are told what they would be told without it.
func (o *Of[C]) Deliver(log *slog.Logger) {
	if !o.begin() {
		return
	}
	for t, ok := o.next(); ok; t, ok = o.next() {
		for _, s := range t.to {
			if !s.cancelled.Load() {
				s.tell(t.change, log)
			}
		}
	}
}

func (s *subscriber[C]) tell(change C, log *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a subscriber panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	s.call(change)
}

func (o *Of[C]) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.delivering {
		return false
	}
	o.delivering = true
	return true
}

// next takes the next pending change, or ends the delivery.
func (o *Of[C]) next() (t telling[C], ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) == 0 {
		o.delivering = false
		return t, false
	}
	t = o.pending[0]
	o.pending = o.pending[1:]
	return t, true
}
