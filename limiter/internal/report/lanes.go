// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"time"

	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// An owner gets early messages of a host as soon as they are due, up to inARow of
// them; then one in each gap. So in an interval it gets at most perInterval of them,
// and inARow more after a quiet time, however many keys it owns. One message has all
// keys of the owner that wait.
//
// A gap is 200 ms at the default interval. The pool lends hosts tokens for about as
// long (algorithm.Elastic's Horizon): with longer gaps, more keys run dry before
// their owner hears of it. inARow is for single keys, which report several times
// while a burst begins.
const (
	inARow      = 20
	perInterval = 15
	longestGap  = 500 * time.Millisecond // where the interval is long
)

// lanes are the Subjects that wait for an early report, by the owners of their keys.
// early.mu protects them.
type lanes struct {
	placement rpc.Placement // nil: all keys have one owner
	byOwner   map[string]*lane
	busy      []*lane       // those in which Subjects wait
	due       stage.Instant // of the first of busy; Never if there is none
}

// lane is the Subjects that wait for one message to one owner.
type lane struct {
	waiting []*Subject
	due     stage.Instant // when the message is to be sent
	next    stage.Instant // no message before then
}

// add has s reported at at, or later if its owner has had many messages. It reports
// whether due has changed.
func (l *lanes) add(s *Subject, at stage.Instant) (sooner bool) {
	owner := ""
	if l.placement != nil {
		owner = l.placement.Owner(s.key())
	}
	to := l.byOwner[owner]
	if to == nil {
		to = new(lane)
		l.byOwner[owner] = to
	}
	if !s.pulse.waits {
		if len(to.waiting) == 0 {
			l.busy, to.due = append(l.busy, to), Never
		}
		s.pulse.waits = true
		to.waiting = append(to.waiting, s)
	}
	to.due = min(to.due, max(at, to.next))
	sooner = to.due < l.due
	l.due = min(l.due, to.due)
	return sooner
}

// take empties the lanes whose message is due at now, or all, and returns their
// Subjects, but for those that are about to be answered: the answer says what is next.
func (l *lanes) take(now stage.Instant, all bool, interval time.Duration) (out []*Subject) {
	gap := min(interval/perInterval, longestGap)
	rested := now.Add(-(inARow - 1) * gap)
	busy := l.busy[:0]
	l.due = Never
	for _, lane := range l.busy {
		if !all && lane.due > now {
			busy = append(busy, lane)
			l.due = min(l.due, lane.due)
			continue
		}
		before := len(out)
		for _, s := range lane.waiting {
			s.pulse.waits = false
			if !s.pulse.retired && s.prompt() && now >= s.pending {
				out = append(out, s)
			}
		}
		clear(lane.waiting)
		if lane.waiting = lane.waiting[:0]; len(out) > before && !all {
			lane.next = max(lane.next, rested).Add(gap)
		}
	}
	clear(l.busy[len(busy):])
	if l.busy = busy; all {
		maps.DeleteFunc(l.byOwner, func(_ string, lane *lane) bool { return lane.next <= rested }) // such are as good as new
	}
	return out
}
