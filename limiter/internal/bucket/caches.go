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
// refusals. So the caches are flushed before anybody counts. They are dropped
// when the bucket's owner reports or changes the pace, and made again when
// processors compete again. A caller that still uses dropped caches puts back
// what it drew, and counts its refusal in the bucket.
type caches struct {
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

// own returns the cache of the processor that the caller likely runs on.
func (c *caches) own() *cache { return &c.each[processor.Of(len(c.each))] }

// tokens that are cached.
func (c *caches) tokens() (n int64) {
	for i := range c.each {
		n += c.each[i].tokens.Load()
	}
	return n
}

// rejected is the cost that was refused.
func (c *caches) rejected() (n int64) {
	for i := range c.each {
		n += c.each[i].rejected.Load()
	}
	return n
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

// contend makes caches: a caller has just lost two swaps in a row, which is
// rare unless processors do nothing else.
func (b *Bucket) contend() {
	if n := processor.Number(); n > 1 && b.low.Load() != always && b.caches.Load() == nil {
		b.caches.CompareAndSwap(nil, &caches{each: make([]cache, n)})
	}
}

// allowCached takes a token out of own, which is one of all's. If there is
// none, it fills own first. If known is false, the bucket has to decide.
func (b *Bucket) allowCached(now stage.Instant, own *cache, all *caches) (ok, low, known bool) {
	if own.take(now) {
		return true, false, true
	}
	b.putBack(now, own)
	flushes := all.flushes.Load()
	n, until, left := b.draw(now, len(all.each))
	switch {
	case n == dry && !all.stocked.Load() && int64(now) >= b.latest.Load():
		b.rejectCached(own, all)
		return false, b.low.Load() != never, true
	case n == brimming:
		b.unstock(now, all)
	}
	if n <= 0 {
		return false, false, false
	}
	b.allowed.Add(n)
	own.until.Store(int64(until))
	own.tokens.Add(n - 1) // but for this event's
	if !all.stocked.Load() {
		all.stocked.Store(true)
	}
	if b.caches.Load() != all || all.flushes.Load() != flushes {
		b.putBack(now, own)
	}
	return true, left < b.low.Load(), true
}

// What draw returns of a bucket that is about to overflow, and of one that has
// not one token.
const brimming, dry = -1, -2

// draw takes several tokens for one of so many caches, or none if there are
// only few, or brimming or dry. It returns until when they may be used, and the
// quanta that are left.
func (b *Bucket) draw(now stage.Instant, caches int) (n int64, until stage.Instant, left int64) {
	for {
		w, p := b.read()
		if p.Unlimited() {
			return 0, 0, 0
		}
		d, one := p.taken(w, now), p.quanta()
		most, matters := p.cached(caches)
		switch left = p.depth - d; {
		case left < one:
			n = dry
		case matters && d < most:
			n = brimming
		case left/(fewest*spread) < one:
			n = 0 // without the divisions, which cost more than all else here
		default:
			n = min(left/one/spread/int64(caches), batch)
		}
		if n < fewest {
			if b.full.Load() == w {
				return min(n, 0), 0, left
			}
			continue
		}
		d += n * one
		if !b.full.CompareAndSwap(w, p.at(now)+d|w&1) {
			continue
		}
		b.note(now, p)
		until = now.Add(shelfLife)
		if matters {
			until = min(until, now.Add(p.duration(d-most)-1))
		}
		return n, until, p.depth - d
	}
}

// cached is how many quanta so many caches may hold, and whether it matters
// that they could overflow.
func (p Pace) cached(caches int) (most int64, matters bool) {
	most = batch * p.quanta() * int64(caches)
	return most, most > p.depth/negligible
}

// rejectCached counts an event that is refused in own, which is one of all's.
func (b *Bucket) rejectCached(own *cache, all *caches) {
	own.rejected.Add(1)
	if b.caches.Load() == all {
		return
	}
	// Move this event only, and only if it is still there: Drop may have moved
	// it already.
	for n := own.rejected.Load(); n > 0; n = own.rejected.Load() {
		if own.rejected.CompareAndSwap(n, n-1) {
			b.rejected.Add(1)
			return
		}
	}
}

// putBack returns own's tokens to the bucket, and reports whether there were any.
func (b *Bucket) putBack(now stage.Instant, own *cache) bool {
	if own.tokens.Load() == 0 {
		return false
	}
	n := own.tokens.Swap(0)
	b.give(now, n)
	b.allowed.Add(-n)
	return n > 0
}

// unstock returns the tokens of all caches to the bucket, and reports whether
// there were any. all may be nil.
func (b *Bucket) unstock(now stage.Instant, all *caches) (some bool) {
	if all == nil || !all.stocked.Load() || !all.stocked.Swap(false) {
		return false
	}
	for i := range all.each {
		if b.putBack(now, &all.each[i]) {
			some = true
		}
	}
	return some
}

// rejoin puts cached tokens back if they could change the answer for a request
// of n tokens: the bucket is about to overflow, or lacks some of the n.
func (b *Bucket) rejoin(now stage.Instant, n int64) {
	c := b.caches.Load()
	if c == nil {
		return
	}
	w, p := b.read()
	d := p.taken(w, now)
	if most, matters := p.cached(len(c.each)); matters && d < most || p.cost(n) > p.depth-d {
		b.unstock(now, c)
	}
}

// flush puts cached tokens back, and those that are being drawn.
func (b *Bucket) flush(now stage.Instant) {
	if c := b.caches.Load(); c != nil {
		c.flushes.Add(1)
		b.unstock(now, c)
	}
}

// Drop ends caching until processors compete again. It is not called while
// another caller counts: the refusals of a cache are in neither place for a
// moment.
func (b *Bucket) Drop(now stage.Instant) {
	if b.caches.Load() == nil {
		return
	}
	c := b.caches.Swap(nil)
	if c == nil {
		return
	}
	b.unstock(now, c)
	for i := range c.each {
		if n := c.each[i].rejected.Swap(0); n != 0 {
			b.rejected.Add(n)
		}
	}
}
