// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"time"
)

// Measured is the demand to set that is not stated: from then on it is
// measured, as at first.
const Measured = -1.0

// maxDemand bounds what is stated, so that sums stay finite.
const maxDemand = 1 << 53

// SetDemand implements Limiter. The key stays live as long as its demand is
// stated. The keys of a shared rule have one demand, and the last statement
// counts.
func (k *Keyed) SetDemand(wants float64) {
	if !(wants >= 0) {
		wants = Measured
	}
	now := Now()
	k.step(now)
	k.group.state(now, k.key, min(wants, maxDemand))
}

// state has key's demand reported as wants, and soon if that can help soon.
func (g *Group) state(now Instant, key string, wants float64) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.mergeLocked()
	c := g.coreOf(key)
	if c != nil && c.alias {
		c = g.coreOf(c.admitted.rule.Key)
	}
	if c == nil {
		return // refused, and that does not depend on its demand
	}
	for _, s := range c.shares {
		if old := s.stated.Swap(math.Float64bits(wants)); old == math.Float64bits(wants) || !s.prompt() {
			continue
		}
		g.early.mu.Lock()
		g.urgeLocked(now, s, coalesce)
		g.early.mu.Unlock()
	}
}

// statement is the demand that was stated; false if it is measured.
func (s *share) statement() (wants float64, ok bool) {
	wants = math.Float64frombits(s.stated.Load())
	return wants, wants >= 0
}

func (s *share) states() bool {
	_, ok := s.statement()
	return ok
}

// prompt tells whether s reports early.
func (s *share) prompt() bool { return s.eager || s.slots != nil }

// catchUp is how many events/s would serve within window those who wait for so
// many tokens, and who have been counted when they came.
func catchUp(tokens float64) float64 {
	if tokens >= 0 {
		return 0
	}
	return -tokens / window
}

// telling is so much cost that a mean over it is hardly chance any more, and so
// needs no longer memory.
const telling = 200.0

// mind is the demand of a share that does not report early: a moving average
// of what was asked for, and those who wait now; or what was stated.
func (s *share) mind(now Instant, total int64, period time.Duration) float64 {
	if s.used != now { // all of that was before, and is told again because nobody answered
		total = 0
	}
	seconds := max(period.Seconds(), moment)
	latest := float64(total) / seconds
	kept := math.Exp(-seconds / min(memory, telling/max(s.mean, latest)))
	s.mean = latest + (s.mean-latest)*kept
	if total == 0 && s.mean < 1 {
		s.mean = 0
	}
	if wants, ok := s.statement(); ok {
		return wants
	}
	if s.slots != nil {
		return s.slots.wants(now)
	}
	return s.mean + catchUp(s.bucket.tokens(now))
}

// tellWants notes what row i of b, its newest, wants; rows before it that told
// nothing get what follows from their counts.
func (b *Batch) tellWants(i int, wants float64) {
	u := &b.room
	if !b.wants {
		b.wants, u.Wants = true, sized(u.Wants, len(u.Keys))
		for j := range i {
			seconds := max(u.Elapsed[j].Seconds(), 1)
			u.Wants[j] = float64(u.Allowed[j]+u.Rejected[j]) / seconds
		}
	}
	u.Wants[i] = wants
	if b.costs {
		u.Cost[i] = 1
	}
}

// WithWants names the algorithms that hear what a host wants, as a moving
// average of what was asked for and who waits, also where it does not report
// early. The others go by what was counted.
func WithWants(algorithms ...string) Option {
	return func(g *Group) {
		for _, name := range algorithms {
			g.wanting[name] = true
		}
	}
}
