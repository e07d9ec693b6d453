// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"math"
	"math/bits"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// Pace is how fast a Bucket fills and how much it holds. The zero Pace is
// unlimited.
//
// All arithmetic is on integers: a token is a whole number of quanta, rounded
// up, so that n tokens cost exactly n times one token and a bucket never
// gives more than depth + time. A quantum is 1/16 ns for most buckets, finer for
// fast ones and coarser for slow ones (see NewPace); distances are taken modulo
// 2⁶⁴ as in sequence numbers, so an Instant of any size will do.
type Pace struct {
	// token packs quanta per token (upper 54 bits) with how an Instant turns
	// into quanta: shifted left by bits 6–9, then right by bits 0–5.
	// 0 is unlimited.
	token int64

	// depth is the whole bucket, in quanta.
	depth int64
}

const (
	// fresh is the word of a bucket that is full at any time. An event that happens to set
	// this very word, to a quantum, makes its bucket full: one of 2⁶³ words, at the one quantum in
	// which the bucket would be full then. A look for that would cost each event a comparison.
	fresh = math.MinInt64

	// maxTaken is the most quanta that can be missing from a bucket: at the
	// finest quantum 39 hours of refill, at the usual one 4.5 years. Rules allow
	// waits and debts of 24 hours.
	maxTaken = 1 << 61

	maxDepth  = 1 << 60
	maxToken  = 1 << 40 // leaves room for a debt of a million tokens
	maxBurst  = 1 << 53
	minLimit  = 1e-12 // slower than a token in 30,000 years never refills
	usual     = 4     // 2⁻⁴ ns
	finest    = 14    // 2⁻¹⁴ ns
	precise   = 11    // a token of 2¹¹ quanta needs no finer ones: rounding adds less than a thousandth
	frozen    = 63    // Instant >> 63: time stands still
	leftMask  = 1<<4 - 1
	tokenBits = 10
)

// NewPace returns the Pace of a bucket with limit events/s and burst tokens. A
// zero, negative or NaN limit never refills; an infinite one never refuses.
func NewPace(limit rate.Limit, burst float64) Pace {
	if !(burst > 0) {
		burst = 0
	}
	burst = min(burst, maxBurst)
	switch {
	case limit >= rate.Inf:
		return Pace{}
	case !(limit >= minLimit):
		quanta := int64(1 << 30)
		if burst > 1<<30 {
			quanta = maxDepth / int64(burst) &^ 1
		}
		// Two quanta more, because Instants before zero shift to -1.
		return Pace{quanta<<tokenBits | frozen, even(burst*float64(quanta)) + 2}
	}
	ns := 1e9 / float64(limit)
	// A quantum is 2^scale ns: as fine as makes a token precise, and as coarse as
	// makes token and depth fit.
	scale := -usual
	if ns < 1<<(precise+1-usual) {
		scale = max(min(log2(ns)-1-precise, -usual), -finest)
	}
	if over := log2(ns * max(burst/maxDepth, 1.0/maxToken)); over > scale {
		scale = min(over, frozen-1)
	}
	quanta := even(ns * power2(-scale))
	quanta = max(min(quanta, maxToken), 2)
	whole := int64(burst)
	part := burst - float64(whole)
	if float64(whole)*float64(quanta) > maxDepth/2 { // else there is no need to divide
		whole = min(whole, maxDepth/quanta)
	}
	p := Pace{quanta << tokenBits, whole*quanta + even(part*float64(quanta))}
	if scale < 0 {
		p.token |= int64(-scale) << 6
	} else {
		p.token |= int64(scale)
	}
	return p
}

// log2 of x > 0, rounded up.
func log2(x float64) int {
	bits := math.Float64bits(x)
	e := int(bits>>52) - 1023
	if bits&(1<<52-1) != 0 {
		e++
	}
	return e
}

// power2 is 2ⁿ, for n in [-1022, 1023].
func power2(n int) float64 { return math.Float64frombits(uint64(n+1023) << 52) }

// even rounds x up to an even integer: the lowest bit of the word is taken.
func even(x float64) int64 { return (int64(math.Ceil(x)) + 1) &^ 1 }

// Unlimited reports whether a bucket of this pace refuses nothing.
func (p Pace) Unlimited() bool { return p.token == 0 }

// quanta per token.
func (p Pace) quanta() int64 { return p.token >> tokenBits }

// left is how many bits an Instant is shifted to the left.
func (p Pace) left() int64 { return p.token >> 6 & leftMask }

// at turns an Instant into quanta.
func (p Pace) at(now stage.Instant) int64 {
	return int64(now) << p.left() >> (p.token & 63) &^ 1
}

// taken is how many quanta are missing from a bucket with word full.
func (p Pace) taken(full int64, now stage.Instant) int64 { return p.takenAt(full, p.at(now)) }

// takenAt is taken at so many quanta of time.
func (p Pace) takenAt(full, at int64) int64 {
	if d := full&^1 - at; d > 0 && full&^1 != fresh {
		return min(d, maxTaken)
	}
	return 0
}

// unfilled is takenAt without a bound, which is all that Allow needs.
func unfilled(full, at int64) int64 {
	if d := full&^1 - at; d > 0 && full&^1 != fresh {
		return d
	}
	return 0
}

// cost of n tokens in quanta, at most maxTaken; n < 0 costs nothing.
func (p Pace) cost(n int64) int64 {
	if n <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(p.quanta()))
	if hi != 0 || lo > maxTaken {
		return maxTaken
	}
	return int64(lo)
}

// duration of d quanta, rounded up; rate.InfDuration when time stands still.
func (p Pace) duration(d int64) time.Duration {
	left, right := p.left(), p.token&63
	switch {
	case d <= 0:
		return 0
	case right == frozen || d > math.MaxInt64>>right:
		return rate.InfDuration
	}
	return time.Duration((d<<right + 1<<left - 1) >> left)
}

// after is duration after a time that is late; 0 if there are no d quanta to wait for.
func (p Pace) after(late time.Duration, d int64) time.Duration {
	if d <= 0 {
		return 0
	}
	if wait := p.duration(d); wait < rate.InfDuration-late {
		return wait + late
	}
	return rate.InfDuration
}

// tokens that are left when d quanta are missing; negative in debt.
func (p Pace) tokens(d int64) float64 {
	if p.Unlimited() {
		return math.Inf(1)
	}
	return float64(p.depth-d) / float64(p.quanta())
}

// missing is how many quanta are missing from a bucket that has tokens tokens,
// rounded up. An error of arithmetic does not count: one token less 10⁻¹⁶ is one.
func (p Pace) missing(tokens float64) int64 {
	d := float64(p.depth) - tokens*float64(p.quanta())
	if !(d > 0) {
		return 0
	}
	return even(min(d-1e-6-float64(p.depth)*4e-16, maxTaken))
}

// span of d in quanta, at most maxTaken; 0 when time stands still.
func (p Pace) span(d time.Duration) int64 {
	left, right := p.left(), p.token&63
	if d > maxTaken>>left {
		return maxTaken >> right
	}
	return int64(d) << left >> right
}

// weigh reports whether a bucket from which d quanta are missing can give cost
// within longest, and how long that takes; if not, when it could, or 0 if
// never. d is as of a time that is late after the caller's, and the caller waits for that
// time too, if it waits at all. With a debt, the event may borrow: it waits for the debt that there
// is, and leaves one behind that is paid within debt, give or take what a
// token is rounded up by, at most a 64th.
func (p Pace) weigh(d, cost int64, longest, debt, late time.Duration) (wait, retry time.Duration, ok bool) {
	if debt <= 0 {
		wait = p.after(late, d+cost-p.depth)
		if cost > p.depth || d+cost > maxTaken || wait == stage.Forever {
			return wait, 0, false
		}
		return wait, p.until(late, max(wait-max(longest, 0), 0)), wait <= longest
	}
	wait = p.after(late, d-p.depth)
	most := p.span(debt)
	over := d + cost - p.depth - most - min(most/p.quanta()*2, most/64) - 2 // of the debt after it
	if wait <= longest && wait < stage.Forever && over <= 0 && d+cost <= maxTaken {
		return wait, 0, true
	}
	if wait == stage.Forever || over > d || d+cost > maxTaken {
		return wait, 0, false // a full bucket would not do
	}
	if retry = p.until(late, max(wait-longest, p.after(late, over), 0)); retry >= stage.Forever {
		retry = 0
	}
	return wait, retry, false
}

// until is wait, which begins so late, rounded up to when an Instant turns into the next quanta: they are even.
func (p Pace) until(late, wait time.Duration) time.Duration {
	if wait <= late || wait == stage.Forever || p.left() > 0 {
		return wait
	}
	step := time.Duration(2) << (p.token & 63)
	if more := (step - (wait-late)%step) % step; more > 0 && more < stage.Forever-wait {
		return wait + more
	}
	return wait
}

// refuse is the verdict on cost with d quanta missing, and what is left as in
// word.take.
func (p Pace) refuse(d, cost int64, debt, retry time.Duration) (v stage.Verdict, left int64) {
	v = stage.Verdict{Answer: stage.Answer{Reason: stage.Limited}, RetryAfter: retry, Left: p.tokens(d)}
	if debt <= 0 && cost > p.depth && p.quanta() <= p.depth { // else nothing is allowed, whatever it costs
		v.Reason, v.RetryAfter = stage.TooCostly, 0
	}
	if left = p.depth - d; left < p.quanta() {
		left = never
	}
	return v, left
}

// Limit in events/s, as exactly as a Pace holds it.
func (p Pace) Limit() rate.Limit {
	switch {
	case p.Unlimited():
		return rate.Inf
	case p.frozen():
		return 0
	}
	scale := int(p.token&63) - int(p.left())
	return rate.Limit(1e9 / (float64(p.quanta()) * power2(scale)))
}

// Burst in tokens; infinite when unlimited.
func (p Pace) Burst() float64 { return p.tokens(0) }

// frozen reports whether a bucket of this pace never refills.
func (p Pace) frozen() bool { return p.token&63 == frozen }
