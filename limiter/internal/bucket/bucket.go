// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// Bucket is a token bucket in one atomic word. The word holds the instant at
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
// coarser for slow ones (see NewPace); distances are taken modulo 2⁶⁴ as in
// sequence numbers, so an Instant of any size will do, and one that is years
// off the latest decision is recognised (see near).
//
// The lowest bit of the word says which of the two paces is in force. A new
// pace is written beside the old one and the swap of the word puts it in
// force, so decisions never wait for a change of rate. A decision that read a
// pace while two changes went by finds the word changed and starts again.
//
// Time that goes backwards adds no tokens and takes none away: a caller whose
// clock reading is older than another's decides as of the later one.
//
// Init comes first. Then all methods are safe for concurrent use and do not
// block, but SetPace, Replace and SetPass are for one caller at a time.
type Bucket struct {
	// A decision that is allowed touches one cache line, and no other
	// bucket's.
	full    atomic.Int64 // orders the paces: they are read after it, written before it
	paces   [2]struct{ token, depth atomic.Int64 }
	low     atomic.Int64 // quanta; see SetLow
	allowed atomic.Int64 // cost, ever
	caches  atomic.Pointer[caches]

	rejected atomic.Int64  // cost, ever
	latest   atomic.Int64  // Instant of the latest decision, give or take slack
	largest  atomic.Int64  // cost at once since TakeLargest
	pass     atomic.Uint64 // of 2⁶⁴ events, how many pass an unlimited bucket
	salt     uint64        // of the coin that decides which
}

// MaxCost is the most tokens of one event that count; it keeps the counters
// from overflowing.
const MaxCost int64 = 1 << 40

// Low-water marks that are no amount: no bucket is below Never, and every one
// is below Always.
const (
	never  = math.MinInt64
	always = math.MaxInt64
)

// unused is the latest decision of a bucket that had none.
const unused = stage.Instant(math.MinInt64 / 2)

// passAll lets every event pass an unlimited bucket.
const passAll = math.MaxUint64

// Init makes b a full bucket.
func (b *Bucket) Init(p Pace) {
	b.paces[0].token.Store(p.token)
	b.paces[0].depth.Store(p.depth)
	b.full.Store(fresh)
	b.low.Store(never)
	b.latest.Store(int64(unused))
	b.pass.Store(passAll)
}

// read returns the word and the pace in force with it. The pace may be torn
// when the word has changed since; whoever acts on it must swap the word or
// see that it still stands.
func (b *Bucket) read() (int64, Pace) {
	w := b.full.Load()
	p := &b.paces[w&1]
	return w, Pace{p.token.Load(), p.depth.Load()}
}

// Allow takes one token if there is one, and counts the event. low reports
// whether fewer tokens than the low-water mark are left.
func (b *Bucket) Allow(now stage.Instant) (ok, low bool) {
	if c := b.caches.Load(); c != nil {
		if ok, low, known := b.allowCached(now, c.own(), c); known {
			return ok, low
		}
	}
	for lost := 0; ; lost++ {
		w, p := b.read()
		if p.Unlimited() {
			return b.allowUnlimited(1)
		}
		at := p.at(now)
		d := p.takenAt(w, at) + p.quanta()
		if d > p.depth {
			b.near(now)
			if b.full.Load() != w {
				continue
			}
			if later := stage.Instant(b.latest.Load()); later > now {
				now = later
				continue
			}
			return b.rejectOne(now)
		}
		if b.full.CompareAndSwap(w, at+d|w&1) {
			b.allowed.Add(1)
			b.note(now, p)
			if lost > 1 {
				b.contend()
			}
			return true, p.depth-d < b.low.Load()
		}
	}
}

// slack bounds the writes to latest: it lags behind by at most the time in
// which one slackth of the depth is filled in. A caller with an older clock
// reading can lose that much.
const slack = 64

// note remembers the time of a decision. It writes only when that is news.
func (b *Bucket) note(now stage.Instant, p Pace) {
	if int64(now)-b.latest.Load() > p.depth/slack>>finest {
		b.latest.Store(int64(now))
	}
}

// ages is longer than clocks disagree. Quanta wrap around after twice as long.
const ages = time.Duration(2*maxTaken) >> finest

// near returns now, unless the latest decision is ages later. Then one of the
// two is no time at all. If the latest decision is ages ahead of the clock too,
// near forgets that time and keeps the tokens; else near returns it. A bucket
// whose latest decision was so long ago that quanta would wrap around is full.
func (b *Bucket) near(now stage.Instant) stage.Instant {
	w, p := b.read()
	switch latest := stage.Instant(b.latest.Load()); {
	case latest == unused:
	case now.Sub(latest) > p.duration(2*maxTaken):
		if w&^1 != fresh {
			b.full.CompareAndSwap(w, fresh|w&1)
		}
	case latest.Sub(now) <= ages:
	case latest.Sub(stage.Now()) <= ages:
		return latest
	case b.latest.CompareAndSwap(int64(latest), int64(now)):
		b.full.CompareAndSwap(w, p.at(now)+p.taken(w, latest)|w&1)
	}
	return now
}

// rejectOne counts an event that is refused, unless there are tokens in caches.
func (b *Bucket) rejectOne(now stage.Instant) (ok, low bool) {
	if c := b.caches.Load(); c != nil {
		if b.unstock(now, c) {
			return b.Allow(now)
		}
		b.rejectCached(c.own(), c)
	} else {
		for lost := 0; ; lost++ {
			if n := b.rejected.Load(); b.rejected.CompareAndSwap(n, n+1) {
				if lost > 1 {
					b.contend()
				}
				break
			}
		}
	}
	return false, b.low.Load() != never
}

// allowUnlimited counts n tokens that no bucket limits, but a coin may.
func (b *Bucket) allowUnlimited(n int64) (ok, low bool) {
	mark := b.low.Load()
	if b.drops() {
		b.rejected.Add(n)
		return false, mark != never
	}
	b.allowed.Add(n)
	return true, mark == always
}

// drops tosses the coin of SetPass. The chance is a hash of how many events
// there were, so that the same events meet the same fate.
func (b *Bucket) drops() bool {
	pass := b.pass.Load()
	return pass != passAll && Mix(uint64(b.allowed.Load()+b.rejected.Load())+b.salt) >= pass
}

// Mix is a hash of x.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Take decides r and counts it. debt above 0 lets it borrow: it is OK if the
// debt that there is already is paid within r.Longest, and the debt that it
// leaves behind within debt. low is as in Allow.
func (b *Bucket) Take(r stage.Request, debt time.Duration) (v stage.Verdict, low bool) {
	if largest := b.largest.Load(); r.N > largest {
		b.largest.CompareAndSwap(largest, r.N) // another caller's may win
	}
	n := min(r.N, MaxCost)
	if r.Kind == stage.Charge {
		b.rejoin(r.Now, n)
		b.Add(r.Now, -float64(n))
		b.allowed.Add(n)
		return stage.Verdict{Left: b.Tokens(r.Now)}, b.low.Load() == always
	}
	b.rejoin(r.Now, r.N)
	read := r.Now // by the caller's clock
	if r.Now = b.near(read); r.Now > read {
		r.Longest = max(r.Longest-r.Now.Sub(read), 0)
	}
	for {
		w, p := b.read()
		if p.Unlimited() {
			if v.Left = math.Inf(1); !b.drops() {
				b.allowed.Add(n)
				return v, b.low.Load() == always
			}
			b.rejected.Add(n)
			v.Reason = stage.Limited
			return v, b.low.Load() != never
		}
		d := p.taken(w, r.Now)
		cost := p.cost(r.N)
		wait, retry, ok := p.weigh(d, cost, r.Longest, debt)
		if !ok {
			if b.full.Load() != w {
				continue
			}
			if later := stage.Instant(b.latest.Load()); later > r.Now {
				r.Longest = max(r.Longest-later.Sub(r.Now), 0)
				r.Now = later
				continue
			}
			b.note(r.Now, p)
			b.rejected.Add(n)
			v.Reason, v.RetryAfter, v.Left = stage.Limited, retry, p.tokens(d)
			if debt <= 0 && cost > p.depth && p.cost(1) <= p.depth { // else nothing is allowed, whatever it costs
				v.Reason, v.RetryAfter = stage.TooCostly, 0
			}
			mark := b.low.Load()
			return v, p.depth-d < max(mark, p.quanta()) && mark != never // without a whole token it is low, as in Allow
		}
		if !b.full.CompareAndSwap(w, p.at(r.Now)+d+cost|w&1) {
			continue
		}
		b.allowed.Add(n)
		b.note(r.Now, p)
		if v.Wait = wait; wait > 0 {
			v.Wait += r.Now.Sub(read)
		}
		if r.Kind == stage.Take {
			v.Left = p.tokens(d + cost)
		}
		return v, p.depth-d-cost < b.low.Load()
	}
}

// weigh reports whether a bucket from which d quanta are missing can give cost
// within longest, and how long that takes; if not, when it could, or 0 if
// never. With a debt, the event may borrow: it waits for the debt that there
// is, and leaves one behind that is paid within debt, give or take what a
// token is rounded up by, at most a 64th.
func (p Pace) weigh(d, cost int64, longest, debt time.Duration) (wait, retry time.Duration, ok bool) {
	if debt <= 0 {
		wait = p.duration(d + cost - p.depth)
		if cost > p.depth || d+cost > maxTaken || wait == stage.Forever {
			return wait, 0, false
		}
		return wait, max(wait-max(longest, 0), 0), wait <= longest
	}
	wait = p.duration(d - p.depth)
	over := d + cost - p.depth // is to be owed
	over -= p.span(debt) + min(over/p.quanta()*2, over/64) + 2
	if wait <= longest && wait < stage.Forever && over <= 0 && d+cost <= maxTaken {
		return wait, 0, true
	}
	if wait < stage.Forever {
		retry = max(wait-longest, p.duration(over), 0)
	}
	if wait == stage.Forever || over > d || d+cost > maxTaken {
		retry = stage.Forever // a full bucket would not do
	}
	return wait, known(retry), false
}

// known is d, or 0 if that is for ever.
func known(d time.Duration) time.Duration {
	if d >= stage.Forever {
		return 0
	}
	return d
}

// RetryAfter is how long until the bucket has n tokens; 0 if it has them, or
// never will.
func (b *Bucket) RetryAfter(now stage.Instant, n int64) time.Duration {
	w, p := b.read()
	if p.Unlimited() {
		return 0
	}
	_, retry, _ := p.weigh(p.taken(w, now), p.cost(n), 0, 0)
	return retry
}

// Refund puts n tokens back that a Take has taken, and takes back that they
// were allowed.
func (b *Bucket) Refund(now stage.Instant, n int64) {
	b.unstock(now, b.caches.Load())
	b.give(now, n)
	b.allowed.Add(-min(n, MaxCost))
}

// Uncount takes back that n tokens were allowed or rejected. The bucket keeps
// them.
func (b *Bucket) Uncount(n int64, allowed bool) {
	if n = min(n, MaxCost); allowed {
		b.allowed.Add(-n)
	} else {
		b.rejected.Add(-n)
	}
}

// CountOnly counts n tokens without taking any.
func (b *Bucket) CountOnly(n int64, allowed bool) {
	if largest := b.largest.Load(); n > largest {
		b.largest.CompareAndSwap(largest, n)
	}
	if n = min(n, MaxCost); allowed {
		b.allowed.Add(n)
	} else {
		b.rejected.Add(n)
	}
}

// Add puts n tokens into the bucket, or takes them if n is negative: then the
// bucket may go into debt, up to 4.5 years of refill. It counts nothing.
func (b *Bucket) Add(now stage.Instant, n float64) {
	b.update(now, func(p Pace, d int64) int64 { return p.missing(p.tokens(d) + n) })
}

// give puts n tokens back that were taken as whole ones.
func (b *Bucket) give(now stage.Instant, n int64) {
	b.update(now, func(p Pace, d int64) int64 { return max(d-p.cost(n), 0) })
}

// Cap lowers the tokens to at most n.
func (b *Bucket) Cap(now stage.Instant, n float64) {
	b.flush(now)
	b.update(now, func(p Pace, d int64) int64 { return max(d, p.missing(n)) })
}

// update replaces the quanta that are missing by what f makes of them.
func (b *Bucket) update(now stage.Instant, f func(p Pace, taken int64) int64) {
	now = b.near(now)
	for {
		w, p := b.read()
		if p.Unlimited() {
			return
		}
		d := p.taken(w, now)
		if b.full.CompareAndSwap(w, p.at(now)+f(p, d)|w&1) {
			b.note(now, p)
			return
		}
	}
}

// SetPace changes the pace and keeps the tokens, as far as the new depth holds
// them.
func (b *Bucket) SetPace(now stage.Instant, p Pace) {
	b.Replace(now, p, func(tokens float64) float64 { return tokens })
}

// Replace changes the pace and the tokens in one step. tokens gets what was
// there under the old pace, infinite when that was unlimited. Replace returns
// that too.
func (b *Bucket) Replace(now stage.Instant, p Pace, tokens func(float64) float64) (before float64) {
	now = b.near(now)
	for {
		w, old := b.read()
		next := w&1 ^ 1
		b.paces[next].token.Store(p.token)
		b.paces[next].depth.Store(p.depth)
		before = old.tokens(old.taken(w, now))
		var full int64
		if !p.Unlimited() {
			full = p.at(now) + p.missing(tokens(before))
		}
		if b.full.CompareAndSwap(w, full|next) {
			b.note(now, p)
			return before
		}
	}
}

// SetPass has an unlimited bucket let only a part of all events pass, in
// [0, 1], by chance. 1 or more lets all pass.
func (b *Bucket) SetPass(part float64) {
	pass := uint64(passAll)
	if part < 1 {
		pass = uint64(min(max(part, 0)*(1<<64), 1<<64-1<<11))
	}
	if b.pass.Load() != pass {
		b.pass.Store(pass)
	}
}

// Drops reports whether an unlimited bucket refuses a part of all events.
func (b *Bucket) Drops() bool { return b.pass.Load() != passAll }

// SetSalt sets where the coin of SetPass begins. Call it before the bucket is
// used.
func (b *Bucket) SetSalt(salt uint64) { b.salt = salt }

// Tokens returns the tokens in the bucket and its caches; negative in debt,
// infinite when unlimited.
func (b *Bucket) Tokens(now stage.Instant) float64 {
	tokens, burst := b.Uncached(now), b.Burst()
	if c := b.caches.Load(); c != nil {
		tokens = min(tokens+float64(c.tokens()), burst)
	}
	return tokens
}

// Uncached returns Tokens without those in caches.
func (b *Bucket) Uncached(now stage.Instant) float64 {
	now = b.near(now)
	for {
		w, p := b.read()
		if t := p.tokens(p.taken(w, now)); b.full.Load() == w {
			return t
		}
	}
}

// SetLow sets the low-water mark, in tokens: decisions that leave less say so.
func (b *Bucket) SetLow(tokens float64) {
	_, p := b.read()
	if low := int64(min(tokens*float64(p.quanta()), maxTaken)); low != b.low.Load() {
		b.low.Store(low)
	}
}

// SetLowNever has no decision say that the bucket is low. It is so at first.
func (b *Bucket) SetLowNever() { b.low.Store(never) }

// LowAlways reports whether SetLowAlways is in force.
func (b *Bucket) LowAlways() bool { return b.low.Load() == always }

// SetLowAlways has each decision say that the bucket is low: its owner wants
// to hear of late callers. Callers that do not see the mark yet have counted
// before Count is called next.
func (b *Bucket) SetLowAlways() { b.low.Store(always) }

// UnsetLowAlways undoes SetLowAlways. was reports whether it was in force, and
// did whether this call undid it.
func (b *Bucket) UnsetLowAlways() (was, did bool) {
	if b.low.Load() != always {
		return false, false
	}
	return true, b.low.CompareAndSwap(always, never)
}

// Limit in events/s, as exactly as a pace holds it.
func (b *Bucket) Limit() rate.Limit {
	_, p := b.read()
	switch {
	case p.Unlimited():
		return rate.Inf
	case p.token&63 == frozen:
		return 0
	}
	scale := int(p.token&63) - int(p.token>>6&7)
	return rate.Limit(1e9 / (float64(p.quanta()) * power2(scale)))
}

// Burst in tokens; infinite when unlimited.
func (b *Bucket) Burst() float64 {
	_, p := b.read()
	return p.tokens(0)
}

// Full reports whether forgetting the bucket loses nothing.
func (b *Bucket) Full(now stage.Instant) bool {
	_, p := b.read()
	return p.Unlimited() || p.token&63 == frozen || b.Uncached(now) >= p.tokens(0)
}

// Usage is what a Bucket has counted since Init, in tokens. Refunds take from
// it.
type Usage struct{ Allowed, Rejected int64 }

// Total is the cost of all that was asked for.
func (u Usage) Total() int64 { return u.Allowed + u.Rejected }

// Count returns what was allowed and rejected. What is cached goes back into
// the bucket first.
func (b *Bucket) Count(now stage.Instant) Usage {
	b.flush(now)
	rejected := b.rejected.Load()
	if c := b.caches.Load(); c != nil {
		rejected += c.rejected()
	}
	return Usage{b.allowed.Load(), rejected}
}

// Inherit adds what another bucket has counted.
func (b *Bucket) Inherit(u Usage) {
	b.allowed.Add(u.Allowed)
	b.rejected.Add(u.Rejected)
}

// Allowed is the cost that was allowed, ever, without a look at the caches:
// their tokens count as allowed.
func (b *Bucket) Allowed() int64 { return b.allowed.Load() }

// TakeLargest returns the largest cost at once since the last call.
func (b *Bucket) TakeLargest() int64 {
	if b.largest.Load() == 0 {
		return 0 // a swap waits for everything before it
	}
	return b.largest.Swap(0)
}
