// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// bucket is a token bucket in one atomic word. The word holds the instant at
// which the bucket will be full again, so time fills the bucket without
// anyone writing to it, and one compare-and-swap takes tokens.
//
//	          ◀──────── depth ────────▶
//	──────────┼──────────────┼─────────┼────────▶ time, in quanta
//	         now           full      now+depth
//	          ◀─── taken ────▶◀─ left ─▶
//
// All arithmetic is on integers: a token is a whole number of quanta, rounded
// up, so that n tokens cost exactly n times one token and a bucket never
// gives more than depth + time. A quantum is 1/16 ns for fast buckets and
// coarser for slow ones (see newPace); distances are taken modulo 2⁶⁴ as in
// sequence numbers, so an Instant of any size will do.
//
// The lowest bit of the word says which of the two paces rules. A new pace is
// written beside the ruling one and the swap of the word puts it in force, so
// decisions never wait for a change of rate. A decision that read a pace while
// two changes went by finds the word changed and starts again.
//
// Decisions are safe for concurrent use and lock-free; setPace is for one
// caller at a time. A bucket must be set with init before use.
type bucket struct {
	full  atomic.Int64 // orders the paces: they are read after it, written before it
	paces [2]struct{ token, depth atomic.Int64 }
}

// init makes b a full bucket.
func (b *bucket) init(p pace) {
	b.paces[0].token.Store(p.token)
	b.paces[0].depth.Store(p.depth)
	b.full.Store(fresh)
}

// read returns the word and the pace that rules with it. The pace may be
// torn when the word has changed since; whoever acts on it must swap the word
// or see that it still stands.
func (b *bucket) read() (int64, pace) {
	w := b.full.Load()
	p := &b.paces[w&1]
	return w, pace{p.token.Load(), p.depth.Load()}
}

// allow takes one token if there is one, and tells whether it did.
func (b *bucket) allow(now Instant) bool {
	for {
		w, p := b.read()
		if p.unlimited() {
			return true
		}
		d := p.taken(w, now) + p.quanta()
		if d > p.depth {
			if b.full.Load() == w {
				return false
			}
			continue
		}
		if b.full.CompareAndSwap(w, p.at(now)+d|w&1) {
			return true
		}
	}
}

// What draw returns of a bucket that brims, and of one that has not one token.
const brimming, dry = -1, -2

// draw takes several tokens for one of so many pockets, or none if there are
// only few, or brimming or dry. It returns until when they may be given, and the
// quanta that are left.
func (b *bucket) draw(now Instant, pockets int) (n int64, until Instant, left int64) {
	for {
		w, p := b.read()
		if p.unlimited() {
			return 0, 0, 0
		}
		d, one := p.taken(w, now), p.quanta()
		most, precise := p.pocketed(pockets)
		switch left = p.depth - d; {
		case left < one:
			n = dry
		case precise && d < most:
			n = brimming
		case left/(fewest*spread) < one:
			n = 0 // without the divisions, which cost more than all else here
		default:
			n = min(left/one/spread/int64(pockets), handful)
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
		until = now.Add(shelfLife)
		if precise {
			until = min(until, now.Add(p.duration(d-most)-1))
		}
		return n, until, p.depth - d
	}
}

// minds tells whether it matters to who takes n tokens that some may be in so
// many pockets: the bucket brims, or does not have n.
func (b *bucket) minds(now Instant, pockets int, n int64) bool {
	w, p := b.read()
	d := p.taken(w, now)
	most, precise := p.pocketed(pockets)
	return precise && d < most || p.cost(n) > p.depth-d
}

// pocketed is how many quanta may be in so many pockets, and whether that
// matters.
func (p pace) pocketed(pockets int) (most int64, matters bool) {
	most = handful * p.quanta() * int64(pockets)
	return most, most > p.depth/negligible
}

// give puts n tokens back that were taken as whole ones.
func (b *bucket) give(now Instant, n int64) {
	b.update(now, func(p pace, d int64) int64 {
		return max(d-p.cost(n), 0)
	})
}

// reserve takes n tokens, borrowing from the future what is not there, if
// that takes no longer than longest. It returns how long it takes.
func (b *bucket) reserve(now Instant, n int64, longest time.Duration) (wait time.Duration, ok bool) {
	if n < 0 {
		return 0, false
	}
	for {
		w, p := b.read()
		if p.unlimited() {
			return 0, true
		}
		cost := p.cost(n)
		d := p.taken(w, now) + cost
		wait = p.duration(d - p.depth)
		if cost > p.depth || d > maxTaken || wait > longest || wait == rate.InfDuration {
			if b.full.Load() == w {
				return wait, false
			}
			continue
		}
		if b.full.CompareAndSwap(w, p.at(now)+d|w&1) {
			return wait, true
		}
	}
}

// owe takes n tokens, borrowing what is not there, if the debt that there is
// already is paid within longest: that is how long it takes. What n leaves
// behind is paid within most, give or take what a token is rounded up by, at
// most a 64th. If not ok, it would be after retry; rate.InfDuration is never.
func (b *bucket) owe(now Instant, n int64, longest, most time.Duration) (wait, retry time.Duration, ok bool) {
	if n < 0 {
		return 0, rate.InfDuration, false
	}
	for {
		w, p := b.read()
		if p.unlimited() {
			return 0, 0, true
		}
		d := p.taken(w, now)
		wait = p.duration(d - p.depth)
		cost := p.cost(n)
		over := d + cost - p.depth // is to be owed
		over -= p.span(most) + min(over/p.quanta()*2, over/64) + 2
		if wait > longest || wait == rate.InfDuration || over > 0 || d+cost > maxTaken {
			if b.full.Load() != w {
				continue
			}
			if wait < rate.InfDuration {
				retry = max(wait-longest, p.duration(over), 0)
			}
			if wait == rate.InfDuration || over > d || d+cost > maxTaken {
				retry = rate.InfDuration // a full bucket would not do
			}
			return wait, retry, false
		}
		if b.full.CompareAndSwap(w, p.at(now)+d+cost|w&1) {
			return wait, 0, true
		}
	}
}

// holds tells whether a full bucket has n tokens.
func (b *bucket) holds(n int64) bool {
	_, p := b.read()
	return p.unlimited() || p.cost(n) <= p.depth
}

// add puts n tokens back, or takes them if n is negative: then the bucket may
// go into debt, up to maxTaken.
func (b *bucket) add(now Instant, n float64) {
	b.update(now, func(p pace, d int64) int64 {
		return p.missing(p.tokens(d) + n)
	})
}

// cap lowers the tokens to at most n.
func (b *bucket) cap(now Instant, n float64) {
	b.update(now, func(p pace, d int64) int64 {
		return max(d, p.missing(n))
	})
}

// update replaces the quanta that are missing by what f makes of them.
func (b *bucket) update(now Instant, f func(p pace, taken int64) int64) {
	for {
		w, p := b.read()
		if p.unlimited() {
			return
		}
		d := p.taken(w, now)
		if b.full.CompareAndSwap(w, p.at(now)+f(p, d)|w&1) {
			return
		}
	}
}

// setPace changes pace and keeps the tokens, as far as the new depth holds
// them. One caller at a time.
func (b *bucket) setPace(now Instant, p pace) {
	b.replace(now, p, func(tokens float64) float64 { return tokens })
}

// replace changes pace and tokens in one step; tokens gets what was there
// under the old pace (infinite when that was unlimited). One caller at a time.
func (b *bucket) replace(now Instant, p pace, tokens func(float64) float64) (before float64) {
	for {
		w, old := b.read()
		next := w&1 ^ 1
		b.paces[next].token.Store(p.token)
		b.paces[next].depth.Store(p.depth)
		before = old.tokens(old.taken(w, now))
		var full int64
		if !p.unlimited() {
			full = p.at(now) + p.missing(tokens(before))
		}
		if b.full.CompareAndSwap(w, full|next) {
			return before
		}
	}
}

// tokens that are there; negative in debt, infinite when unlimited.
func (b *bucket) tokens(now Instant) float64 {
	for {
		w, p := b.read()
		if t := p.tokens(p.taken(w, now)); b.full.Load() == w {
			return t
		}
	}
}

// quanta that n tokens are worth now.
func (b *bucket) quanta(n float64) int64 {
	_, p := b.read()
	return int64(min(n*float64(p.quanta()), maxTaken))
}

// tokensOf is how many tokens so many quanta are now.
func (b *bucket) tokensOf(quanta int64) float64 {
	_, p := b.read()
	return float64(quanta) / float64(max(p.quanta(), 1))
}

// delay is how long until the bucket is out of debt.
func (b *bucket) delay(now Instant) time.Duration {
	for {
		w, p := b.read()
		var wait time.Duration
		if !p.unlimited() {
			wait = p.duration(p.taken(w, now) - p.depth)
		}
		if b.full.Load() == w {
			return wait
		}
	}
}

// limit in events/s, as exactly as a pace holds it.
func (b *bucket) limit() rate.Limit {
	_, p := b.read()
	switch {
	case p.unlimited():
		return rate.Inf
	case p.token&63 == frozen:
		return 0
	}
	scale := int(p.token&63) - int(p.token>>6&7)
	return rate.Limit(1e9 / (float64(p.quanta()) * power2(scale)))
}

// burst in tokens; infinite when unlimited.
func (b *bucket) burst() float64 {
	_, p := b.read()
	return p.tokens(0)
}

// idle tells whether the bucket is full: forgetting it loses nothing.
func (b *bucket) idle(now Instant) bool {
	_, p := b.read()
	return p.unlimited() || p.token&63 == frozen || b.tokens(now) >= p.tokens(0)
}
