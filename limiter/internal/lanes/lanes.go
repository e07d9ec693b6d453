// SPDX-License-Identifier: Apache-2.0

// Package lanes keeps what waits to be sent to the owners of keys, so that an owner gets few
// messages.
//
//	l := lanes.New[*Subject]()
//	l.Add("10.0.0.7:7001", subject, now, false)
//	subjects := l.Take(now, false, interval, func(*Subject) bool { return true }) // once l.Due() has come
//
// An owner gets messages of a host as soon as they are due, up to InARow of them; then
// one in each gap. So in an interval it gets at most PerInterval of them, and InARow more
// after a quiet time, however many keys it owns. One message has all keys of the owner
// that wait.
//
// The package knows neither what is sent nor who owns which key.
package lanes

import (
	"maps"
	"math"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// A gap is 200 ms at the default interval. The pool lends hosts tokens for about as
// long (algorithm.Elastic's Horizon): with longer gaps, more keys run dry before
// they are reported. InARow is for single keys, which report several times
// while a burst begins.
const (
	InARow      = 20
	PerInterval = 15
	longestGap  = 500 * time.Millisecond // where the interval is long
)

// Never is an Instant that does not come.
const Never = stage.Instant(math.MaxInt64)

// Lanes are items that wait, by owner. Use New. A lock of the caller's guards them.
type Lanes[T any] struct {
	byOwner map[string]*lane[T]
	busy    []*lane[T]    // those in which items wait
	due     stage.Instant // of the first of busy; Never if there is none
}

// lane is the items that wait for one message to one owner.
type lane[T any] struct {
	waiting []T
	due     stage.Instant // when the message is to be sent
	next    stage.Instant // no message before then
}

// New returns empty Lanes.
func New[T any]() Lanes[T] { return Lanes[T]{byOwner: make(map[string]*lane[T]), due: Never} }

// Due is when Take has something to take; Never if nothing waits.
func (l *Lanes[T]) Due() stage.Instant { return l.due }

// Owners is how many owners are remembered.
func (l *Lanes[T]) Owners() int { return len(l.byOwner) }

// Add lets item wait for the next message to owner. The message is due at at, or later if the
// owner was sent many messages recently. waits says that the item waits already. Add reports
// whether Due has changed.
func (l *Lanes[T]) Add(owner string, item T, at stage.Instant, waits bool) (sooner bool) {
	to := l.byOwner[owner]
	if to == nil {
		to = new(lane[T])
		l.byOwner[owner] = to
	}
	if !waits {
		if len(to.waiting) == 0 {
			l.busy, to.due = append(l.busy, to), Never
		}
		to.waiting = append(to.waiting, item)
	}
	to.due = min(to.due, max(at, to.next))
	sooner = to.due < l.due
	l.due = min(l.due, to.due)
	return sooner
}

// Take empties the lanes whose message is due at now; with all, it empties all lanes. It calls
// send with each of their items, and returns those for which send is true.
func (l *Lanes[T]) Take(now stage.Instant, all bool, interval time.Duration, send func(T) bool) (out []T) {
	gap := min(interval/PerInterval, longestGap)
	rested := now.Add(-(InARow - 1) * gap)
	busy := l.busy[:0]
	l.due = Never
	for _, lane := range l.busy {
		if !all && lane.due > now {
			busy = append(busy, lane)
			l.due = min(l.due, lane.due)
			continue
		}
		before := len(out)
		for _, item := range lane.waiting {
			if send(item) {
				out = append(out, item)
			}
		}
		clear(lane.waiting)
		if lane.waiting = lane.waiting[:0]; len(out) > before && !all {
			lane.next = max(lane.next, rested).Add(gap)
		}
	}
	clear(l.busy[len(busy):])
	if l.busy = busy; all {
		maps.DeleteFunc(l.byOwner, func(_ string, lane *lane[T]) bool { return lane.next <= rested }) // such are as good as new
	}
	return out
}
