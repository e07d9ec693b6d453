// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// word is a token bucket in one atomic word, which holds the instant at which
// the bucket will be full again. So time fills the bucket without anyone
// writing to it, and one compare-and-swap takes tokens. It counts nothing.
//
//	          ◀──────── depth ────────▶
//	──────────┼──────────────┼─────────┼────────▶ time, in quanta
//	         now           full      now+depth
//	          ◀─── taken ────▶◀─ left ─▶
//
// The lowest bit of the word says which of the two paces is in force. A new
// pace is written beside the old one and the swap of the word puts it in
// force, so decisions never wait for a change of rate. A decision that read a
// pace while two changes went by finds the word changed and starts again, unless
// the second change happens to set the very same word, to a quantum. Then an event
// that is allowed counts by the pace that was read. A refusal looks at the pace
// again too: see stands.
//
// Time that goes backwards adds no tokens and takes none away: a caller whose
// clock reading is older than another's decides as of the later one. Distances
// are taken modulo 2⁶⁴ as in sequence numbers, so a time that is years off the
// latest decision needs care: see near.
type word struct {
	full   atomic.Int64 // orders the paces: they are read after it, written before it
	paces  [2]struct{ token, depth atomic.Int64 }
	latest atomic.Int64 // Instant of the latest decision, give or take slack
}

// read returns the word and the pace in force with it. The pace may be torn
// when the word has changed since. A caller that acts on it must swap the word
// or see that both still stand.
func (w *word) read() (full int64, p Pace) {
	full = w.full.Load()
	of := &w.paces[full&1]
	return full, Pace{of.token.Load(), of.depth.Load()}
}

// stands reports whether full and p, which read returned, are in force together.
// The order matters. Replace writes the token, then the depth, then the word, and
// writes over this pace only after another word is in force. So if the word is
// full now, and the token is p's after that, then the depth in between is the one
// that is in force with them.
func (w *word) stands(full int64, p Pace) bool {
	of := &w.paces[full&1]
	return w.full.Load() == full && of.depth.Load() == p.depth && of.token.Load() == p.token
}

// swap replaces full by a word with d quanta missing at so many quanta of time,
// unless another caller was faster.
func (w *word) swap(full, at, d int64) bool { return w.full.CompareAndSwap(full, at+d|full&1) }

// slack bounds the writes to latest: it lags behind by at most the time in
// which one slackth of the depth is filled in. A caller with an older clock
// reading can lose that much.
const slack = 64

// note remembers the time of a decision. It writes only when that is news. It spells
// out p.left: a processor has no register to keep that from the beginning of a decision.
func (w *word) note(now stage.Instant, p Pace) {
	if int64(now)-w.latest.Load() > int64(uint64(p.depth)/slack>>(p.token&(leftMask<<6)>>6)) {
		w.latest.Store(int64(now))
	}
}

// unused is the latest decision of a bucket that had none.
const unused = stage.Instant(math.MinInt64 / 2)

const (
	// days is 78 hours. The finest quanta wrap around after four times as long.
	days = time.Duration(2*maxTaken) >> finest

	// ages is longer than clocks disagree.
	ages = time.Duration(2*maxTaken) >> usual
)

// near returns now, unless the latest decision is days off: see far.
func (w *word) near(now stage.Instant) stage.Instant {
	if w.isFar(now) {
		return w.far(now)
	}
	return now
}

// isFar reports whether the latest decision is days off now.
func (w *word) isFar(now stage.Instant) bool {
	return uint64(int64(now)-w.latest.Load()+int64(days)) > 2*uint64(days)
}

// far is near for a now that is days off the latest decision. A bucket whose
// latest decision was so long ago that its quanta would wrap around is full. If
// the latest decision is later than now, far returns the time of that decision.
// But if it is ages later, one of the two is no time at all, such as the zero
// time: if the latest decision is ages ahead of the clock too, far forgets that
// time and keeps the tokens.
func (w *word) far(now stage.Instant) stage.Instant {
	latest := stage.Instant(w.latest.Load())
	full, p := w.read()
	switch {
	case latest == unused:
	case now.Sub(latest) > p.duration(2*maxTaken):
		if full&^1 != fresh {
			w.full.CompareAndSwap(full, fresh|full&1)
		}
	case now > latest:
	case latest.Sub(now) <= ages || latest.Sub(stage.Now()) <= ages:
		return latest
	case w.latest.CompareAndSwap(int64(latest), int64(now)):
		w.full.CompareAndSwap(full, p.at(now)+p.taken(full, latest)|full&1)
	}
	return now
}

// holds reports whether a refusal at now by full is final, if full stands. If not,
// the caller decides again as of then.
func (w *word) holds(full int64, now stage.Instant) (then stage.Instant, final bool) {
	if w.isFar(now) { // far may change the word
		w.far(now)
		if w.full.Load() != full {
			return now, false
		}
	}
	then = max(now, stage.Instant(w.latest.Load()))
	return then, then == now
}

// boundless is how many quanta are left of an unlimited bucket.
const boundless = always - 1

// take decides r, which is not a Charge. left is how many quanta are left
// afterwards; never if a refusal found less than a token, and boundless if the
// bucket is unlimited.
func (w *word) take(r stage.Request, debt time.Duration) (v stage.Verdict, left int64) {
	read := r.Now // by the caller's clock
	r.Now = w.near(read)
	for {
		full, p := w.read()
		if p.Unlimited() {
			return stage.Verdict{Left: math.Inf(1)}, boundless
		}
		at, cost := p.at(r.Now), p.cost(r.N)
		d := p.takenAt(full, at)
		var wait time.Duration
		if left = p.depth - d - cost; left < 0 {
			var retry time.Duration
			var ok bool
			if wait, retry, ok = p.weigh(d, cost, r.Longest, debt, max(r.Now.Sub(read), 0)); !ok {
				if !w.stands(full, p) {
					continue
				}
				then, final := w.holds(full, r.Now)
				if !final {
					r.Now = then
					continue
				}
				w.note(r.Now, p)
				return p.refuse(d, cost, debt, retry)
			}
		}
		if !w.swap(full, at, d+cost) {
			continue
		}
		w.note(r.Now, p)
		v.Wait = wait
		if r.Kind == stage.Take {
			v.Left = p.tokens(d + cost)
		}
		return v, left
	}
}

// update replaces the quanta that are missing by what f makes of them, as of now or
// the latest decision.
func (w *word) update(now stage.Instant, f func(p Pace, taken int64) int64) {
	now = w.asOf(now)
	for {
		full, p := w.read()
		if p.Unlimited() {
			return
		}
		at := p.at(now)
		if w.swap(full, at, f(p, p.takenAt(full, at))) {
			w.note(now, p)
			return
		}
	}
}

// Add puts n tokens into the bucket, or takes them if n is negative: then the
// bucket may go into debt, up to 39 hours of refill or more. It counts nothing, and returns
// the tokens that are there then. Add repeats update's loop because each grant calls it.
func (w *word) Add(now stage.Instant, n float64) (tokens float64) {
	now = w.asOf(now)
	for {
		full, p := w.read()
		if p.Unlimited() {
			return math.Inf(1)
		}
		at := p.at(now)
		tokens = p.tokens(p.takenAt(full, at)) + n
		d := p.missing(tokens)
		if w.swap(full, at, d) {
			w.note(now, p)
			if d == 0 {
				return p.Burst()
			}
			return tokens
		}
	}
}

// give puts n tokens back that were taken as whole ones.
func (w *word) give(now stage.Instant, n int64) {
	w.update(now, func(p Pace, d int64) int64 { return max(d-p.cost(n), 0) })
}

// SetPace changes the pace and keeps the tokens, as far as the new depth holds
// them. It is for one caller at a time, and so is Replace.
func (w *word) SetPace(now stage.Instant, p Pace) {
	w.Replace(now, p, func(tokens float64) float64 { return tokens })
}

// Replace changes the pace and the tokens in one step. tokens gets what was
// there under the old pace, infinite when that was unlimited. Replace returns
// that too.
func (w *word) Replace(now stage.Instant, p Pace, tokens func(float64) float64) (before float64) {
	now = w.asOf(now)
	for {
		full, old := w.read()
		next := full&1 ^ 1
		w.paces[next].token.Store(p.token)
		w.paces[next].depth.Store(p.depth)
		before = old.tokens(old.taken(full, now))
		var then int64
		if !p.Unlimited() {
			then = p.at(now) + p.missing(tokens(before))
		}
		if w.full.CompareAndSwap(full, then|next) {
			w.note(now, p)
			return before
		}
	}
}

// Pace returns the pace in force. It may be torn when another caller changes
// it.
func (w *word) Pace() Pace {
	_, p := w.read()
	return p
}

// asOf returns now, or the latest decision if that is later.
func (w *word) asOf(now stage.Instant) stage.Instant {
	return max(w.near(now), stage.Instant(w.latest.Load()))
}

// Uncached returns the tokens in the bucket without those in caches.
func (w *word) Uncached(now stage.Instant) float64 {
	now = w.asOf(now)
	for {
		full, p := w.read()
		if t := p.tokens(p.taken(full, now)); w.stands(full, p) {
			return t
		}
	}
}

// Full reports whether forgetting the bucket loses nothing.
func (w *word) Full(now stage.Instant) bool {
	p := w.Pace()
	return p.frozen() || w.Uncached(now) >= p.Burst()
}

// RetryAfter is how long until the bucket has n tokens; 0 if it has them, or
// never will.
func (w *word) RetryAfter(now stage.Instant, n int64) time.Duration {
	then := w.asOf(now)
	full, p := w.read()
	if p.Unlimited() {
		return 0
	}
	_, retry, _ := p.weigh(p.taken(full, then), p.cost(n), 0, 0, max(then.Sub(now), 0))
	return retry
}
