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
type Pace struct {
	// token packs quanta per token (upper 55 bits) with how an Instant turns
	// into quanta: shifted left by bits 6–8, then right by bits 0–5.
	// 0 is unlimited.
	token int64

	// depth is the whole bucket, in quanta.
	depth int64
}

const (
	// fresh is the word of a bucket that is full at any time.
	fresh = math.MinInt64

	// maxTaken is the most quanta that can be missing from a bucket; at the
	// finest quantum that is 4.5 years of refill.
	maxTaken = 1 << 61

	maxDepth  = 1 << 60
	maxToken  = 1 << 40 // leaves room for a debt of a million tokens
	maxBurst  = 1 << 53
	minLimit  = 1e-12 // slower than a token in 30,000 years never refills
	finest    = 4     // 2⁻⁴ ns
	frozen    = 63    // Instant >> 63: time stands still
	tokenBits = 9
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
		const quanta = 1 << 30
		// Two quanta more, because Instants before zero shift to -1.
		return Pace{quanta<<tokenBits | frozen, even(min(burst, 1<<30)*quanta) + 2}
	}
	ns := 1e9 / float64(limit)
	// The finest quantum, 2^scale ns, in which token and depth fit.
	scale := -finest
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

// at turns an Instant into quanta.
func (p Pace) at(now stage.Instant) int64 {
	return int64(now) << (p.token >> 6 & 7) >> (p.token & 63) &^ 1
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
	left, right := p.token>>6&7, p.token&63
	switch {
	case d <= 0:
		return 0
	case right == frozen || d > math.MaxInt64>>right:
		return rate.InfDuration
	}
	return time.Duration((d<<right + 1<<left - 1) >> left)
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
	left, right := p.token>>6&7, p.token&63
	if d > maxTaken>>left {
		return maxTaken >> right
	}
	return int64(d) << left >> right
}
