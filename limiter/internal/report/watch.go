// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"github.com/headgate/headgate/limiter/internal/demand"
	"github.com/headgate/headgate/limiter/internal/lanes"
	"github.com/headgate/headgate/limiter/stage"
)

const (
	// tick is how often the demand of most keys in use is looked at, all together, so
	// that their early reports share messages.
	tick = 200 * time.Millisecond

	// turn is how often the demand of quick keys is looked at.
	turn = 50 * time.Millisecond

	// slowTicks is how many ticks pass between two looks at a slow key.
	slowTicks = 5
)

// watch is the Subjects in use, by when their demand is looked at next. early.mu
// protects it. While no Subject is quick, there is nothing to do between two ticks.
type watch struct {
	fast, rest []*Subject            // quick and usual
	slow       [slowTicks][]*Subject // by tick
	next       uint8                 // the tick that comes next
	n          int                   // Subjects in use
	tickAt     stage.Instant         // when the next tick is
	turnAt     stage.Instant         // and the next turn
}

// due is when there is something to look at next; lanes.Never if there is nothing.
func (w *watch) due() stage.Instant {
	switch {
	case w.n == 0:
		return lanes.Never
	case len(w.fast) == 0:
		return w.tickAt
	}
	return min(w.tickAt, w.turnAt)
}

// add has s, which is in no list, looked at as often as its demand says, a slow one after
// the longest time that there is.
func (w *watch) add(s *Subject) {
	list := &w.rest
	switch s.pulse.class = s.pulse.demand.Class(s.Asks()); s.pulse.class {
	case demand.Quick:
		list = &w.fast
	case demand.Slow:
		list = &w.slow[(w.next+slowTicks-1)%slowTicks]
	}
	*list = append(*list, s)
	w.n++
}

// sooner has s, which asks its owner, looked at more often if its host wants so much by now. s
// stays in its earlier list, too, until that list is looked at.
func (w *watch) sooner(now stage.Instant, s *Subject, wants float64) {
	p := &s.pulse
	class := p.demand.Sooner(p.class, wants)
	if class == p.class || p.retired || p.lingers != demand.None {
		return
	}
	p.lingers = p.class
	if class == demand.Quick {
		w.quick(now, s)
		return
	}
	p.class = class
	w.rest = append(w.rest, s)
}

// quick has s, which is in no list but that where it lingers, looked at quickly.
func (w *watch) quick(now stage.Instant, s *Subject) {
	if len(w.fast) == 0 {
		w.turnAt = now.Add(turn)
	}
	s.pulse.class = demand.Quick
	w.fast = append(w.fast, s)
}
