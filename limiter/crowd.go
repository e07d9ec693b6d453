// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/processor"
)

// crowd decides for a share whose processors are in each other's way: each
// draws some tokens out of the bucket at once, into a pocket of its own, and
// then decides without touching what others write.
//
//	                  ┌─▶ pocket of processor 0 ─▶ decisions
//	bucket ── draw ───┼─▶ pocket of processor 1 ─▶ decisions
//	                  └─▶ …
//
// A token is in one place only, and none is refused while there is one
// anywhere, so together they give what the bucket alone would. No pocket gives
// anything when the bucket would be full with what is in them: then all of it
// goes back, and overflows as it would have without pockets.
//
// Tokens count as allowed when they are drawn, and what is refused is counted
// by processor too. A crowd disperses when somebody wants exact counts or
// changes what rules, and forms again when swaps are lost again. Who drew or
// counted meanwhile sees that it has dispersed, and does it over.
type crowd struct {
	pockets []pocket      // by processor
	stocked atomic.Bool   // or else there is nothing in them
	caps    atomic.Uint32 // how often they were emptied for good
}

// pocket holds a processor's tokens. It is a cache line.
type pocket struct {
	tokens   atomic.Int64
	until    atomic.Int64 // Instant from which on none is taken
	rejected atomic.Int64 // cost, since the crowd formed
	_        [40]byte
}

const (
	// handful is the most tokens that are drawn at once, and fewest the least
	// that are worth it.
	handful, fewest = 64, 4

	// spread: all pockets together draw one in so many tokens that are left.
	spread = 16

	// negligible: with a burst of so many times what may be in all pockets,
	// it does not matter whether that overflows.
	negligible = 1 << 14

	// shelfLife is how long tokens stay in a pocket.
	shelfLife = time.Millisecond
)

// own returns the pocket of the processor that it likely runs on.
func (c *crowd) own() *pocket { return &c.pockets[processor.Of(len(c.pockets))] }

// take takes a token, if there is one at now.
func (p *pocket) take(now Instant) bool {
	for {
		n := p.tokens.Load()
		if n <= 0 || int64(now) >= p.until.Load() {
			return false
		}
		if p.tokens.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// rejectFrom counts an event that is refused in p, which is one of c's.
func (s *share) rejectFrom(p *pocket, c *crowd) {
	p.rejected.Add(1)
	if s.crowd.Load() == c {
		return
	}
	// Only this event's, if it is still there: who counts has those before.
	for n := p.rejected.Load(); n > 0; n = p.rejected.Load() {
		if p.rejected.CompareAndSwap(n, n-1) {
			s.rejected.Add(1)
			return
		}
	}
}

// rejectOne counts an event that is refused, after a swap that was lost.
func (s *share) rejectOne() {
	for lost := 1; ; lost++ {
		if n := s.rejected.Load(); s.rejected.CompareAndSwap(n, n+1) {
			if lost > 1 {
				s.gather()
			}
			return
		}
	}
}

// gather forms a crowd: an event has just lost two swaps in a row, which is
// rare unless processors do nothing else.
func (s *share) gather() {
	if n := processor.Number(); n > 1 && s.low.Load() != straggling && s.crowd.Load() == nil {
		s.crowd.CompareAndSwap(nil, &crowd{pockets: make([]pocket, n)})
	}
}

// allowFrom takes a token out of p, which is one of c's. If it has none, it is
// filled. Unless it knows, the bucket has to decide.
func (s *share) allowFrom(p *pocket, c *crowd, now Instant) (ok, known bool) {
	if p.take(now) {
		return true, true
	}
	s.putBack(now, p)
	caps := c.caps.Load()
	n, until, left := s.bucket.draw(now, len(c.pockets))
	switch {
	case n == dry && !c.stocked.Load():
		s.rejectFrom(p, c)
		s.lacks(now)
		return false, true
	case n == brimming:
		s.unstock(now, c)
	}
	if n <= 0 {
		return false, false
	}
	s.allowed.Add(n)
	p.until.Store(int64(until))
	p.tokens.Add(n - 1) // but for this event's
	if !c.stocked.Load() {
		c.stocked.Store(true)
	}
	if s.crowd.Load() != c || c.caps.Load() != caps {
		s.putBack(now, p)
	}
	if left < s.low.Load() {
		s.runsLow(now)
	}
	return true, true
}

// putBack returns what is in p to the bucket, and tells whether that is
// anything.
func (s *share) putBack(now Instant, p *pocket) bool {
	if p.tokens.Load() == 0 {
		return false
	}
	n := p.tokens.Swap(0)
	s.bucket.give(now, n)
	s.allowed.Add(-n)
	return n > 0
}

// unstock returns what is in all of c's pockets; c may be nil.
func (s *share) unstock(now Instant, c *crowd) (some bool) {
	if c == nil || !c.stocked.Load() || !c.stocked.Swap(false) {
		return false
	}
	for i := range c.pockets {
		if s.putBack(now, &c.pockets[i]) {
			some = true
		}
	}
	return some
}

// rejoin puts back what is in pockets if the bucket brims, or lacks some of n
// tokens. Whoever takes tokens past the pockets does so before.
func (s *share) rejoin(now Instant, n int) {
	if c := s.crowd.Load(); c != nil && s.bucket.minds(now, len(c.pockets), int64(n)) {
		s.unstock(now, c)
	}
}

// emptied puts back what is in pockets, and what is being drawn. The crowd goes
// on: what it refused is for those to add up who hold group.mu.
func (s *share) emptied(now Instant) {
	if c := s.crowd.Load(); c != nil {
		c.caps.Add(1)
		s.unstock(now, c)
	}
}

// disperse ends the crowd, if there is one. It is called with group.mu held.
func (s *share) disperse(now Instant) {
	if s.crowd.Load() != nil {
		s.dispersed(now)
	}
}

func (s *share) dispersed(now Instant) {
	c := s.crowd.Swap(nil)
	if c == nil {
		return
	}
	s.unstock(now, c)
	for i := range c.pockets {
		if n := c.pockets[i].rejected.Swap(0); n != 0 {
			s.rejected.Add(n)
		}
	}
}

// pocketed is how many tokens are in pockets.
func (s *share) pocketed() (tokens int64) {
	if c := s.crowd.Load(); c != nil {
		for i := range c.pockets {
			tokens += c.pockets[i].tokens.Load()
		}
	}
	return tokens
}
