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

// add has s, which is in no list, looked at as often as its demand says.
func (w *watch) add(now stage.Instant, s *Subject) {
	w.put(now, s, s.pulse.demand.Class(s.Asks()))
	w.n++
}

// put has s, which is in no list but that where it lingers, looked at as a key of class c, a slow
// one after the longest time that there is.
func (w *watch) put(now stage.Instant, s *Subject, c demand.Class) {
	list := &w.rest
	switch s.pulse.class = c; c {
	case demand.Quick:
		if list = &w.fast; len(w.fast) == 0 {
			w.turnAt = now.Add(turn)
		}
	case demand.Slow:
		list = &w.slow[(w.next+slowTicks-1)%slowTicks]
	}
	*list = append(*list, s)
}

// sooner has s, which asks its owner, looked at more often if its host wants so much by now. s
// stays in its earlier list, too, until that list is looked at.
func (w *watch) sooner(now stage.Instant, s *Subject, wants float64) {
	p := &s.pulse
	if c := p.demand.Sooner(p.class, wants); c != p.class && !p.retired && p.lingers == demand.None {
		p.lingers = p.class
		w.put(now, s, c)
	}
}
