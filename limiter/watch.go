// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"sync/atomic"
	"time"
)

// pulse is how one share's demand moves. Only those that were under an eager
// algorithm at some time use it: they have a group.
type pulse struct {
	askAt atomic.Int64 // no ask before this Instant

	active, urgent bool
	gone           bool    // no longer any key's
	total          int64   // cost, ever, at the last look
	at             Instant // that look
	demand         demand
	changed        Instant // when it last changed
	gap            time.Duration
}

// activateLocked has s looked at in each tick.
func (g *Group) activateLocked(now Instant, s *share) {
	p := &s.pulse
	if p.active {
		return
	}
	p.active = true
	p.look(s.count(now))
	p.demand.quiet, p.demand.fast = 0, p.demand.told
	if g.early.watched == 0 {
		g.early.tickAt = now.Add(g.early.jitter(tick))
	}
	g.early.watched++
	g.early.watch(s)
	g.dueLocked()
}

// slow tells whether s is looked at in one of slowTicks only.
func (p *pulse) slow() bool { return max(p.demand.told, p.demand.fast) < slowDemand }

// watch has s looked at as often as it is worth it; a slow one after the longest
// time that there is.
func (e *early) watch(s *share) {
	to := &e.active
	if s.pulse.slow() {
		to = &e.slow[(e.turn+slowTicks-1)%slowTicks]
	}
	*to = append(*to, s)
}

// tickLocked looks at the demand of keys in use.
func (g *Group) tickLocked(now Instant) {
	e := &g.early
	e.active = g.lookLocked(now, e.active, false)
	turn := e.turn
	e.turn = (turn + 1) % slowTicks
	e.slow[turn] = g.lookLocked(now, e.slow[turn], true)
	e.tickAt = now.Add(tick)
}

// lookLocked looks at the demand of shares, all of which are slow or none, and
// returns those that stay so.
func (g *Group) lookLocked(now Instant, shares []*share, slow bool) []*share {
	stay := shares[:0]
	var seconds memo
	for i, s := range shares {
		if i%ahead == 0 {
			fetchPulses(shares[i:min(i+ahead, len(shares))])
		}
		p := &s.pulse
		if p.gone {
			g.early.watched--
			continue
		}
		count := s.count(now)
		n, elapsed := p.since(count)
		p.look(count)
		if dt := seconds.secondsOf(elapsed); dt > 0 && p.demand.tick(n, dt) && !s.states() {
			p.unsettle(now)
			g.urgeLocked(now, s, 0)
		}
		switch {
		case p.demand.quiet > enoughQuiet && p.demand.told < 1:
			p.active = false
			g.early.watched--
		case p.slow() == slow:
			stay = append(stay, s)
		default:
			g.early.watch(s)
		}
	}
	clear(shares[len(stay):])
	return stay
}

// unsettle makes asks frequent again: what was in vain before may help now, or
// soon, when others have given back what they hold.
func (p *pulse) unsettle(now Instant) { p.gap, p.changed = shortestGap, now }

// look notes the counters.
func (p *pulse) look(c counts) { p.total, p.at = c.total(), c.at }

// since is what was asked for since the last look, and how long that was ago.
func (p *pulse) since(now counts) (n float64, elapsed time.Duration) {
	return float64(max(now.total()-p.total, 0)), now.at.Sub(p.at)
}

// memo is a duration in seconds. Keys that come after each other often have the
// same.
type memo struct {
	of      time.Duration
	seconds float64
}

func (m *memo) secondsOf(d time.Duration) float64 {
	if d != m.of {
		m.of, m.seconds = d, d.Seconds()
	}
	return m.seconds
}

// wantsLocked is the demand of s to report in r, for total in a period until
// now; it is told from now on.
func (s *share) wantsLocked(now Instant, r *row, total int64, period float64, sinceLook *memo) float64 {
	n, elapsed := s.pulse.since(counts{r.allowed, r.rejected, now})
	d := &s.pulse.demand
	d.cost = s.cost
	wants := d.estimate(n, sinceLook.secondsOf(elapsed), float64(total), period)
	if d.changed(wants) {
		s.pulse.unsettle(now)
	}
	d.tell(wants)
	if stated, ok := s.statement(); ok {
		return stated
	}
	return wants + catchUp(r.tokens)
}
