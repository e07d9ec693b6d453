// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/processor"
	"github.com/headgate/headgate/limiter/stage"
)

// caches decide for a bucket that processors compete for: each takes some
// tokens out of the bucket at once, into a cache of its own, and then decides
// without touching what the others write.
//
//	                  ┌─▶ cache of processor 0 ─▶ decisions
//	bucket ── draw ───┼─▶ cache of processor 1 ─▶ decisions
//	                  └─▶ …
//
// A token is in one place only, and no event is refused while there is a token
// anywhere, so together they allow what the bucket alone would. When the
// bucket would be full with what is cached, everything goes back, and
// overflows as it would have without caches.
//
// Tokens count as allowed when they are drawn, and each cache counts its own
// refusals. So the caches are flushed before each count. They are dropped
// when the bucket's owner reports or changes the pace, and made again when
// processors compete again. A caller that still uses dropped caches puts back
// what it drew, and counts its refusal in the bucket.
type caches struct {
	of      *Bucket
	each    []cache       // by processor
	stocked atomic.Bool   // false: all are empty
	flushes atomic.Uint32 // how often they were flushed, modulo 2³²
}

// cache holds a processor's tokens. It is a cache line.
type cache struct {
	tokens   atomic.Int64
	until    atomic.Int64 // Instant from which on none is taken
	rejected atomic.Int64 // cost, since the caches were made
	_        [40]byte
}

const (
	// batch is the most tokens that are drawn at once, and fewest the least
	// that are worth it.
	batch, fewest = 64, 4

	// spread: all caches together draw one in so many tokens that are left.
	spread = 16

	// negligible: with a burst of so many times what may be cached, it does
	// not matter whether that overflows.
	negligible = 1 << 14

	// shelfLife is how long tokens stay in a cache.
	shelfLife = time.Millisecond
)

// newCaches returns empty caches of b for so many processors.
func newCaches(b *Bucket, processors int) *caches {
	return &caches{of: b, each: make([]cache, processors)}
}

// own returns the cache of the processor that the caller likely runs on.
func (c *caches) own() *cache { return &c.each[processor.Of(len(c.each))] }

// sum adds up the tokens that are cached, and the cost that was refused.
func (c *caches) sum() (tokens, rejected int64) {
	for i := range c.each {
		tokens += c.each[i].tokens.Load()
		rejected += c.each[i].rejected.Load()
	}
	return tokens, rejected
}

// take takes a token, if there is one at now.
func (c *cache) take(now stage.Instant) bool {
	for {
		n := c.tokens.Load()
		if n <= 0 || int64(now) >= c.until.Load() {
			return false
		}
		if c.tokens.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// allow takes a token out of own, which is one of c's. If there is none, it
// fills own first. If known is false, the bucket has to decide.
func (c *caches) allow(now stage.Instant, own *cache) (ok, low, known bool) {
	if own.take(now) {
		return true, false, true
	}
	c.putBack(now, own)
	flushes := c.flushes.Load()
	n, until, left := c.draw(now)
	switch {
	case n == dry && !c.stocked.Load() && int64(now) >= c.of.latest.Load():
		c.reject(own)
		return false, c.of.above(never), true
	case n == brimming:
		c.unstock(now)
	}
	if n <= 0 {
		return false, false, false
	}
	c.of.allowed.Add(n)
	own.until.Store(int64(until))
	own.tokens.Add(n - 1) // but for this event's
	if !c.stocked.Load() {
		c.stocked.Store(true)
	}
	if c.of.caches.Load() != c || c.flushes.Load() != flushes {
		c.putBack(now, own)
	}
	return true, c.of.above(left), true
}

// brimming and dry are what draw returns for a bucket that is about to overflow,
// and for one without a whole token.
const brimming, dry = -1, -2

// draw takes several tokens for one cache out of the bucket, or none if there
// are only few, or brimming or dry. It returns until when they may be used, and
// the quanta that are left.
func (c *caches) draw(now stage.Instant) (n int64, until stage.Instant, left int64) {
	c.of.near(now) // a word that has wrapped around is replaced
	for {
		w, p := c.of.read()
		if p.Unlimited() {
			return 0, 0, 0
		}
		d, one := p.taken(w, now), p.quanta()
		most, matters := c.most(p)
		switch left = p.depth - d; {
		case left < one:
			n = dry
		case matters && d < most:
			n = brimming
		case left/(fewest*spread) < one:
			n = 0 // without the divisions, which cost more than all else here
		default:
			n = min(left/one/spread/int64(len(c.each)), batch)
		}
		if n < fewest {
			if c.of.stands(w, p) {
				return min(n, 0), 0, left
			}
			continue
		}
		d += n * one
		if !c.of.swap(w, p.at(now), d) {
			continue
		}
		c.of.note(now, p)
		until = now.Add(shelfLife)
		if matters {
			until = min(until, now.Add(p.duration(d-most)-1))
		}
		return n, until, p.depth - d
	}
}

// most is how many quanta of p the caches may hold, and whether it matters that
// they could overflow.
func (c *caches) most(p Pace) (quanta int64, matters bool) {
	quanta = batch * p.quanta() * int64(len(c.each))
	return quanta, quanta > p.depth/negligible
}

// reject counts an event that is refused in own, which is one of c's.
func (c *caches) reject(own *cache) {
	own.rejected.Add(1)
	if c.of.caches.Load() == c {
		return
	}
	// Move this event only, and only if it is still there: close may have moved
	// it already.
	for n := own.rejected.Load(); n > 0; n = own.rejected.Load() {
		if own.rejected.CompareAndSwap(n, n-1) {
			c.of.rejected.Add(1)
			return
		}
	}
}

// putBack returns own's tokens to the bucket, and reports whether there were any.
func (c *caches) putBack(now stage.Instant, own *cache) bool {
	if own.tokens.Load() == 0 {
		return false
	}
	n := own.tokens.Swap(0)
	c.of.give(now, n)
	c.of.allowed.Add(-n)
	return n > 0
}

// unstock returns the tokens of all caches to the bucket, and reports whether
// there were any. c may be nil.
func (c *caches) unstock(now stage.Instant) (some bool) {
	if c == nil || !c.stocked.Load() || !c.stocked.Swap(false) {
		return false
	}
	for i := range c.each {
		if c.putBack(now, &c.each[i]) {
			some = true
		}
	}
	return some
}

// close has the bucket take over all that the caches hold and counted.
func (c *caches) close(now stage.Instant) {
	c.unstock(now)
	for i := range c.each {
		c.of.rejected.Add(c.each[i].rejected.Swap(0))
	}
}

// rejoin puts cached tokens back if they could change the answer for a request
// of n tokens: the bucket is about to overflow, or lacks some of the n.
func (c *caches) rejoin(now stage.Instant, n int64) {
	w, p := c.of.read()
	d := p.taken(w, now)
	if most, matters := c.most(p); matters && d < most || p.cost(n) > p.depth-d {
		c.unstock(now)
	}
}

// flush puts cached tokens back, and those that are being drawn. c may be nil.
func (c *caches) flush(now stage.Instant) {
	if c != nil {
		c.flushes.Add(1)
		c.unstock(now)
	}
}
