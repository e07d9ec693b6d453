// SPDX-License-Identifier: Apache-2.0

// Package exactbucket is a token bucket that loses no fraction of a token. The
// owner of an exact key and the hosts of a mesh decide with it.
//
//	b := exactbucket.New(now, exactbucket.Rule{Rate: 10, Burst: 2})
//	v := b.Take(now, 1, 0) // v.OK, or v.Retry says when to ask again
//
// The package has no clock, no lock and no goroutine. It knows nothing of keys,
// hosts or config.
package exactbucket

import (
	"math"
	"time"
)

// Bucket is a token bucket that holds the whole limit of a key. The number of
// tokens follows from the sum of all that was taken since the bucket was last
// full, and from the time since then. So rounding does not add up, however
// often the bucket is asked.
//
// The zero Bucket allows nothing; use New. Times count from any fixed point. A
// time before the latest one counts as the latest. Not safe for concurrent use.
type Bucket struct {
	rule  Rule
	since time.Duration // when there were base tokens
	base  float64
	taken float64 // since then
	rest  float64 // the part of taken that does not fit into its 53 bits
	spilt float64 // see Spilt
}

// Rule is how a Bucket fills, and which callers wait.
type Rule struct {
	// Rate is in tokens/s, and Burst the most tokens that the bucket holds. A
	// Rate of 0 never fills it. NaN and negative numbers count as 0.
	Rate, Burst float64

	// MaxWait bounds how long a caller may have to wait for its tokens. 0 does
	// not bound it; below 0, no caller waits.
	MaxWait time.Duration

	// MaxDebt, above 0, is how long the bucket may need to come out of debt.
	// With it, a caller borrows the missing tokens and goes on at once; the
	// next caller waits. Without it, each caller waits for its own tokens.
	MaxDebt time.Duration

	// MaxCost is the most that is taken at once; 0 is the burst. Without
	// MaxDebt it is at most the burst.
	MaxCost float64
}

// Verdict is the answer of Take.
type Verdict struct {
	// OK means that the tokens are taken, and may be used after Wait.
	OK   bool
	Wait time.Duration

	// Retry is, if not OK, after how long asking again may help; Never if
	// it cannot.
	Retry time.Duration
}

// Never is longer than any wait.
const Never = time.Duration(math.MaxInt64)

// MaxTokens is the most that a bucket holds, and its deepest debt. Above it, a float64 loses
// whole tokens.
const MaxTokens = 1 << 53

// settleAfter is how much is taken before the account begins anew. While taken
// is below it, a level is right to a few 10⁻⁷ of a token. Each new account adds
// an error of that size, which is 2⁻⁵² of what was taken.
const settleAfter = 1 << 30

// New returns a full bucket at now.
func New(now time.Duration, rule Rule) Bucket {
	b := Bucket{rule: rule.valid(), since: now}
	b.base = b.rule.Burst
	return b
}

// valid is r with every number in its range.
func (r Rule) valid() Rule {
	r.Rate, r.Burst, r.MaxCost = within(r.Rate, math.MaxFloat64), within(r.Burst, MaxTokens), within(r.MaxCost, MaxTokens)
	if r.MaxCost == 0 {
		r.MaxCost = r.Burst
	}
	if r.MaxDebt <= 0 {
		r.MaxCost = min(r.MaxCost, r.Burst)
	}
	return r
}

// within is x in [0, most]; NaN is 0.
func within(x, most float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, most)
}

// Take takes n tokens at now if they are there within longest, which can only
// lower MaxWait; below 0 it does not bound. Taking 0 is always OK.
func (b *Bucket) Take(now time.Duration, n float64, longest time.Duration) Verdict {
	if !(n >= 0 && n <= b.rule.MaxCost) {
		return Verdict{Retry: Never}
	}
	level := b.settle(now)
	if n == 0 {
		return Verdict{OK: true}
	}
	short, retry := n-level, time.Duration(0)
	if b.rule.MaxDebt > 0 {
		debt := b.rule.Rate * b.rule.MaxDebt.Seconds()
		if retry = b.until(short - debt); b.until(n-b.rule.Burst-debt) > 0 {
			return Verdict{Retry: Never} // even a full bucket would not do
		}
		short = -level
	}
	patience := Never
	if b.rule.MaxWait != 0 {
		patience = max(b.rule.MaxWait, 0)
	}
	if longest >= 0 {
		patience = min(patience, longest)
	}
	wait := b.until(short)
	if wait == Never {
		return Verdict{Retry: Never}
	}
	if retry = max(retry, b.until(short-b.rule.Rate*patience.Seconds())); retry > 0 {
		return Verdict{Retry: retry}
	}
	b.add(n)
	return Verdict{OK: true, Wait: min(wait, patience)}
}

// until is how long the bucket needs to fill in short tokens. It ignores what
// rounding may have added, so that a caller who comes back after Retry is
// served.
func (b *Bucket) until(short float64) time.Duration {
	if short <= 1e-9+(math.Abs(b.base)+math.Abs(b.taken))*0x1p-50 {
		return 0
	}
	ns := math.Ceil(short / b.rule.Rate * 1e9)
	if !(ns < math.MaxInt64) {
		return Never
	}
	return time.Duration(max(ns, 1))
}

// Level is how many tokens there are at now; below 0 in debt.
func (b *Bucket) Level(now time.Duration) float64 { return b.settle(now) }

// Full reports whether b is as New makes it at now.
func (b *Bucket) Full(now time.Duration) bool { return b.settle(now) >= b.rule.Burst }

// Give puts n tokens back at now, as far as there is room.
func (b *Bucket) Give(now time.Duration, n float64) {
	b.settle(now)
	b.add(-within(n, MaxTokens))
	b.settle(now) // drops what there is no room for
}

// Charge takes n tokens at now for what has happened already, but leaves floor
// if there is as much; a floor below 0 is a debt, and NaN the level. It returns
// how many it took.
func (b *Bucket) Charge(now time.Duration, n, floor float64) float64 {
	room := b.settle(now) - max(floor, -MaxTokens)
	n = min(within(n, MaxTokens), within(room, 2*MaxTokens))
	b.add(n)
	return n
}

// Spilt is how many tokens b had no room for until now, and how many Lower took.
func (b *Bucket) Spilt(now time.Duration) float64 {
	b.settle(now)
	return b.spilt
}

// Under reports whether b follows rule already.
func (b *Bucket) Under(rule Rule) bool { return b.rule == rule.valid() }

// Rate is how fast b fills, in tokens/s.
func (b *Bucket) Rate() float64 { return b.rule.Rate }

// Burst is how many tokens b holds at most.
func (b *Bucket) Burst() float64 { return b.rule.Burst }

// Lower leaves at most tokens at now; NaN changes nothing.
func (b *Bucket) Lower(now time.Duration, tokens float64) {
	if level := b.settle(now); level > tokens {
		tokens = max(tokens, -MaxTokens)
		b.spilt = min(b.spilt+(level-tokens), MaxTokens)
		b.restart(max(b.since, now), tokens)
	}
}

// Rule changes how b fills at now, and keeps the tokens as far as there is room.
func (b *Bucket) Rule(now time.Duration, rule Rule) {
	level := b.settle(now)
	b.rule = rule.valid()
	b.restart(max(b.since, now), min(level, b.rule.Burst))
}

// Follow is Rule for a bucket that was charged with what is spent already. Under a
// lower rate or burst, a debt that is deeper than callers can make under rule
// becomes less in proportion, so that it does not take longer to pay back. After a rate of
// 0, it becomes as deep as callers can make it.
func (b *Bucket) Follow(now time.Duration, rule Rule) {
	level, before := b.settle(now), b.rule
	b.Rule(now, rule)
	less := min(b.rule.Rate/before.Rate, b.rule.Burst/before.Burst)
	if before.Rate == 0 { // it may have been any before that
		less = 0
	}
	if b.rule.Rate > 0 && less < 1 {
		borrowed := b.rule.Rate * max(rule.MaxWait, rule.MaxDebt, 0).Seconds()
		if least := min(level*less, -b.rule.Burst-max(b.rule.MaxCost, b.rule.Burst)-borrowed); level < least {
			b.restart(b.since, least)
		}
	}
}

// settle is the level at now. The account begins anew when the bucket is full,
// and before its numbers become too large.
func (b *Bucket) settle(now time.Duration) float64 {
	now = max(now, b.since)
	level := b.base + (b.rule.Rate*(float64(now-b.since)/1e9) - b.taken - b.rest)
	switch {
	case level >= b.rule.Burst:
		b.spilt = min(b.spilt+(level-b.rule.Burst), MaxTokens)
		b.restart(now, b.rule.Burst)
	case b.taken > settleAfter || b.taken < -settleAfter:
		b.restart(now, level)
	}
	return min(level, b.rule.Burst)
}

func (b *Bucket) restart(now time.Duration, tokens float64) {
	b.since, b.base, b.taken, b.rest = now, tokens, 0, 0
}

// add counts n as taken, exactly: rest keeps what the sum rounds off.
func (b *Bucket) add(n float64) {
	sum := b.taken + n
	if math.Abs(b.taken) >= math.Abs(n) {
		b.rest += b.taken - sum + n
	} else {
		b.rest += n - sum + b.taken
	}
	b.taken = sum
}
