// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"math"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// bucket is a token bucket as an account: what it holds follows from all that
// was taken since it was full. So no part of a token is lost.
type bucket struct {
	rate, burst float64 // tokens/s, tokens
	since       limiter.Instant
	base, taken float64 // tokens at since, and those taken from then on
}

const (
	maxTokens = 1 << 53 // above it, a float64 loses whole tokens
	maxRate   = 1e15

	// settleAfter is how much is taken before the account begins anew.
	settleAfter = 1 << 30
)

// within is x in [0, most]; NaN is 0.
func within(x, most float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, most)
}

// rule changes how b fills, and keeps the tokens as far as there is room.
func (b *bucket) rule(now limiter.Instant, rule *dynamicconfig.Rule) {
	rate, burst := within(float64(rule.Limit), maxRate), within(rule.Burst, maxTokens)
	if rate == b.rate && burst == b.burst {
		return
	}
	level := b.level(now)
	b.rate, b.burst = rate, burst
	b.restart(now, min(level, burst))
}

// fill makes b full.
func (b *bucket) fill(now limiter.Instant) { b.restart(now, b.burst) }

func (b *bucket) restart(now limiter.Instant, level float64) {
	b.since, b.base, b.taken = max(now, b.since), max(level, -maxTokens), 0
}

// level is how many tokens there are at now. Time that goes back stands still.
func (b *bucket) level(now limiter.Instant) float64 {
	level := b.base + b.rate*max(now.Sub(b.since), 0).Seconds() - b.taken
	switch {
	case level >= b.burst:
		level = b.burst
		b.fill(now)
	case b.taken > settleAfter || b.taken < -settleAfter:
		b.restart(now, level)
	}
	return level
}

// add takes n tokens, or gives them back if n is below 0; a debt deeper than
// floor is not made. It returns how many it took.
func (b *bucket) add(now limiter.Instant, n, floor float64) float64 {
	n = min(n, max(b.level(now)-floor, 0))
	b.taken += n
	return n
}

// lower leaves at most so many tokens.
func (b *bucket) lower(now limiter.Instant, tokens float64) {
	if b.level(now) > tokens {
		b.restart(now, tokens)
	}
}

// raise leaves at least so many tokens, as far as there is room.
func (b *bucket) raise(now limiter.Instant, tokens float64) {
	if b.level(now) < tokens {
		b.restart(now, min(tokens, b.burst))
	}
}

// take takes n tokens if they are there within longest; with a debt, tokens
// that may be owed, if the debt that there is already is paid by then. retry
// is 0 if no wait would do.
func (b *bucket) take(now limiter.Instant, n, debt float64, longest time.Duration) (wait, retry time.Duration, ok bool) {
	level := b.level(now)
	short, full, over := n-level, n-b.burst, 0.0
	if debt > 0 {
		short, full, over = -level, n-b.burst-debt, n-level-debt
	}
	if n == 0 {
		return 0, 0, true
	}
	wait = b.until(short)
	retry = max(b.until(over), b.until(short-b.rate*max(longest, 0).Seconds()))
	switch {
	case b.until(full) > 0 || wait == never || retry == never:
		return 0, 0, false
	case retry > 0:
		return 0, retry, false
	}
	b.taken += n
	return min(wait, longest), 0, true
}

const never = time.Duration(math.MaxInt64)

// until is how long it takes to fill in so many tokens, but for what
// arithmetic may have added.
func (b *bucket) until(short float64) time.Duration {
	if short <= 1e-9+(math.Abs(b.base)+math.Abs(b.taken))*0x1p-50 {
		return 0
	}
	ns := math.Ceil(short / b.rate * 1e9)
	if !(ns < math.MaxInt64) {
		return never
	}
	return time.Duration(max(ns, 1))
}
