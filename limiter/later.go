// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync"
	"time"
)

// Later is a Stepper that takes time to decide. Who only measures it does not
// wait for it.
type Later interface {
	Stepper

	// ReserveLater is ReserveAt that does not wait. done is called, mostly from
	// another goroutine, with the answer: whether, and after which wait; or
	// never, if too much goes on. The Reservation is not OK, but what becomes
	// of the event can be said of it at any time.
	ReserveLater(now Instant, n int, longest time.Duration, done func(ok bool, wait time.Duration)) Reservation
}

var _ Later = (*asked)(nil)

// ReserveLater implements Later.
func (a *asked) ReserveLater(now Instant, n int, longest time.Duration, done func(ok bool, wait time.Duration)) Reservation {
	p := new(pending)
	a.group.background(func() {
		r, v := a.reserveAt(context.Background(), now, n, longest)
		p.arrive(r)
		done(v.ok(), v.wait)
	})
	return p
}

// pending is a Reservation that is not there yet.
type pending struct {
	ticket // that is not OK

	mu     sync.Mutex  // protects following fields
	held   Reservation // nil until it is there
	unused bool
}

// arrive says what the Reservation is.
func (p *pending) arrive(r Reservation) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.held = r
	if p.unused {
		r.Used(false)
	}
}

// Used implements Reservation.
func (p *pending) Used(used bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if used || p.unused {
		return
	}
	p.unused = true
	if p.held != nil {
		p.held.Used(false)
	}
}

// Cancel implements Reservation.
func (p *pending) Cancel() { p.Used(false) }

// CancelAt implements Reservation.
func (p *pending) CancelAt(time.Time) { p.Used(false) }

// maxBackground bounds what goes on in the background of a Group.
const maxBackground = 256

// WithBackground sets what runs f for a Remote, which takes time: to tell it
// what it is owed, or to measure it. The default is a goroutine for each, and a
// bound on how many. The simulator, where nothing takes time, runs it at once.
func WithBackground(run func(f func())) Option { return func(g *Group) { g.aside = run } }

// background runs f unless too much goes on.
func (g *Group) background(f func()) bool {
	if g.aside != nil {
		g.aside(f)
		return true
	}
	select {
	case g.busy <- struct{}{}:
	default:
		g.metrics.skipped.Inc(1)
		return false
	}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				g.log.Error("what went on in the background panicked", "panic", p)
			}
			<-g.busy
		}()
		f()
	}()
	return true
}

// join waits until nothing goes on in the background.
func (g *Group) join() {
	for range cap(g.busy) {
		g.busy <- struct{}{}
	}
	for range cap(g.busy) {
		<-g.busy
	}
}
