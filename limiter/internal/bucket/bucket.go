// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/processor"
	"github.com/headgate/headgate/limiter/stage"
)

// Bucket is a token bucket that counts what it decides, says when it runs low,
// and has caches when processors compete for it.
//
// Init comes first. Then all methods are safe for concurrent use and do not
// block, but SetPace, Replace and SetPass are for one caller at a time.
type Bucket struct {
	// A decision that is allowed writes to one cache line, and to no other
	// bucket's. The line ends with what the Tally has allowed.
	word
	caches atomic.Pointer[caches]
	Tally

	lowMark
	coin
}

// Init makes b a full bucket.
func (b *Bucket) Init(p Pace) {
	b.paces[0].token.Store(p.token)
	b.paces[0].depth.Store(p.depth)
	b.full.Store(fresh)
	b.latest.Store(int64(unused))
	b.SetLowNever()
	b.SetPass(1)
}

// Allow takes one token if there is one, and counts the event. low reports
// whether fewer tokens than the low-water mark are left.
//
// An event that is allowed costs no look at how long ago the latest decision was.
// So a fast bucket that was not used for 13 days, or a multiple of that, may lack
// tokens until it has filled again, but only if that moment is within the time
// in which it fills. See near.
func (b *Bucket) Allow(now stage.Instant) (ok, low bool) {
	if c := b.caches.Load(); c != nil {
		if ok, low, known := c.allow(now, c.own()); known {
			return ok, low
		}
	}
	for lost := 0; ; lost++ {
		w, p := b.read()
		if p.Unlimited() {
			v, low := b.Take(stage.Request{Now: now, N: 1}, 0)
			return v.OK(), low
		}
		at := p.at(now)
		d := unfilled(w, at) + p.quanta()
		if uint64(d) > uint64(p.depth) { // also if the sum overflows
			if !b.stands(w, p) {
				continue
			}
			then, final := b.holds(w, now)
			if final {
				return b.reject(now)
			}
			now = then
			continue
		}
		if b.swap(w, at, d) {
			b.allowed.Add(1)
			b.note(now, p)
			if lost > 1 {
				b.contend()
			}
			return true, b.above(p.depth - d)
		}
	}
}

// reject counts an event that is refused, unless there are tokens in caches.
func (b *Bucket) reject(now stage.Instant) (ok, low bool) {
	if c := b.caches.Load(); c != nil {
		if c.unstock(now) {
			return b.Allow(now)
		}
		c.reject(c.own())
	} else if b.rejectOne() {
		b.contend()
	}
	return false, b.above(never)
}

// contend makes caches: a caller has just lost two swaps in a row, which is
// rare unless processors do nothing else.
func (b *Bucket) contend() {
	if n := processor.Number(); n > 1 && !b.LowAlways() && b.caches.Load() == nil {
		b.caches.CompareAndSwap(nil, newCaches(b, n))
	}
}

// Take decides r and counts it, unless it is TooCostly: then low is true, and the caller, who
// knows the rule, calls Rejected if the event is demand. debt above 0 lets it borrow: it is
// OK if the debt that there is already is paid within r.Longest, and the debt that it
// leaves behind within debt. r is not a Charge. low is as in Allow.
func (b *Bucket) Take(r stage.Request, debt time.Duration) (v stage.Verdict, low bool) {
	if c := b.caches.Load(); c != nil {
		c.rejoin(r.Now, r.N)
	}
	v, left := b.take(r, debt)
	if left == boundless && b.toss(b.Usage().Total()) {
		v.Reason, left = stage.Limited, never
	}
	switch {
	case v.OK():
		b.Record(r.N, true)
	case v.Reason == stage.TooCostly:
		return v, true
	default:
		b.Record(r.N, false)
	}
	return v, b.above(left)
}

// Rejected counts an event of n tokens that Take has found TooCostly, and that left so many
// tokens. low is as in Allow.
func (b *Bucket) Rejected(n int64, left float64) (low bool) {
	b.Record(n, false)
	if left < 1 {
		return b.above(never)
	}
	return b.above(int64(min(left*float64(b.Pace().quanta()), maxTaken)))
}

// Charge takes n tokens that are spent already, and counts them. The debt that it
// leaves is at most the burst, what fills in within borrowed, and cost tokens. A
// debt that is deeper stays as it is. low is as in Allow.
func (b *Bucket) Charge(now stage.Instant, n int64, borrowed time.Duration, cost float64) (v stage.Verdict, low bool) {
	b.Spend(now, n, borrowed, cost)
	b.Record(n, true)
	return stage.Verdict{Left: b.Tokens(now)}, b.LowAlways()
}

// Spend is Charge without counting.
func (b *Bucket) Spend(now stage.Instant, n int64, borrowed time.Duration, cost float64) {
	if c := b.caches.Load(); c != nil {
		c.rejoin(now, n)
	}
	b.update(now, func(p Pace, d int64) int64 {
		most := min(2*p.depth+p.span(borrowed)+p.cost(int64(min(cost, 1<<53))), maxTaken)
		return max(d, min(d+p.cost(n), most))
	})
}

// Refund puts n tokens back that a Take has taken, and takes back that they
// were allowed.
func (b *Bucket) Refund(now stage.Instant, n int64) {
	b.caches.Load().unstock(now)
	b.give(now, n)
	b.Uncount(n)
}

// Uncount takes back that n tokens were allowed.
func (b *Bucket) Uncount(n int64) {
	b.skip(n)
	b.Record(-n, true)
}

// Cap lowers the tokens to at most n.
func (b *Bucket) Cap(now stage.Instant, n float64) {
	b.caches.Load().flush(now)
	b.update(now, func(p Pace, d int64) int64 { return max(d, p.missing(n)) })
}

// Tokens returns the tokens in the bucket and its caches; negative in debt,
// infinite when unlimited.
func (b *Bucket) Tokens(now stage.Instant) float64 {
	tokens := b.Uncached(now)
	if c := b.caches.Load(); c != nil {
		cached, _ := c.sum()
		tokens = min(tokens+float64(cached), b.Pace().Burst())
	}
	return tokens
}

// SetLow sets the low-water mark, in tokens: decisions that leave less say so. A bucket that is
// unlimited is never low.
func (b *Bucket) SetLow(tokens float64) {
	p := b.Pace()
	if p.Unlimited() { // its tokens are infinite, and its quanta none
		b.SetLowNever()
		return
	}
	b.setLow(int64(min(tokens*float64(p.quanta()), maxTaken)))
}

// Count returns what was allowed and rejected. Tokens in caches go back into the
// bucket first.
func (b *Bucket) Count(now stage.Instant) Usage {
	c := b.caches.Load()
	if c == nil {
		return b.Usage()
	}
	c.flush(now)
	u := b.Usage()
	_, rejected := c.sum()
	u.Rejected += rejected
	return u
}

// Drop ends caching until processors compete again. It is not called while
// another caller counts: the refusals of a cache are in neither place for a
// moment.
func (b *Bucket) Drop(now stage.Instant) {
	if c := b.caches.Load(); c != nil && b.caches.CompareAndSwap(c, nil) {
		c.close(now)
	}
}
