// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"math"
	"time"
)

// NameExact is the name under which rules have a Bucket decide. It is no
// Algorithm: nothing is shared.
const NameExact = "exact"

// Bucket is a token bucket that holds the whole limit of a key, for a decider
// that is asked per event. What it holds follows from all that was taken since
// it was last full and from the time since then. So no fraction of a token is
// lost, however often it is asked, and rounding does not add up.
//
// The zero Bucket allows nothing; use NewBucket. Time is counted from any fixed
// point; where it goes backwards it stands still. Not safe for concurrent use.
type Bucket struct {
	rule  BucketRule
	since time.Duration // when there were base tokens
	base  float64
	taken float64 // since then
	rest  float64 // of taken: what its 53 bits do not hold
}

// BucketRule is how a Bucket fills, and whom it makes wait.
type BucketRule struct {
	// Limit is how it fills and how much it holds. A Rate of 0 never fills
	// it. NaN and negative numbers count as 0.
	Limit

	// MaxWait bounds how long who takes may have to wait; 0: nothing does;
	// below 0: nobody waits.
	MaxWait time.Duration

	// MaxDebt, above 0, is how long the bucket may need to come out of debt.
	// With it, who takes borrows what is not there and goes on at once; the
	// next one waits. Without, everyone waits for its own tokens.
	MaxDebt time.Duration

	// MaxCost is the most that is taken at once; 0: the burst. Without
	// MaxDebt nothing above the burst is.
	MaxCost float64
}

// Verdict is what a Bucket says to who takes.
type Verdict struct {
	// OK: the tokens are taken, and may be used after Wait.
	OK   bool
	Wait time.Duration

	// Retry is, if not OK, after how long asking again may help; Never.
	Retry time.Duration
}

// Never is longer than anybody waits.
const Never = time.Duration(math.MaxInt64)

const (
	// mostTokens bounds what a bucket holds or owes: above it, float64 loses
	// whole tokens.
	mostTokens = 1 << 53

	// settleAfter is how much is taken before the account begins anew: while
	// taken is that small, a level is right to a few 10⁻⁷ of a token. Each
	// new account costs as much, which is 2⁻⁵² of what was taken.
	settleAfter = 1 << 30
)

// NewBucket returns a full bucket at now.
func NewBucket(now time.Duration, rule BucketRule) Bucket {
	b := Bucket{rule: rule.sane(), since: now}
	b.base = b.rule.Burst
	return b
}

func (r BucketRule) sane() BucketRule {
	r.Rate, r.Burst, r.MaxCost = within(r.Rate, math.MaxFloat64), within(r.Burst, mostTokens), within(r.MaxCost, mostTokens)
	if r.MaxCost == 0 {
		r.MaxCost = r.Burst
	}
	if r.MaxDebt <= 0 {
		r.MaxCost = min(r.MaxCost, r.Burst)
	}
	return r
}

// Take takes n tokens at now if they are there within longest, which can only
// lower MaxWait; below 0 it does not bound. To take none is always OK.
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
			return Verdict{Retry: Never} // it would not do even if the bucket were full
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

// until is how long it takes to fill in short tokens. What arithmetic may have
// added is not waited for: who comes back when told to is not sent away.
func (b *Bucket) until(short float64) time.Duration {
	if short <= 1e-9+(math.Abs(b.base)+b.taken)*0x1p-50 {
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

// Full tells whether nothing is lost by forgetting b at now.
func (b *Bucket) Full(now time.Duration) bool { return b.settle(now) >= b.rule.Burst }

// Give puts n tokens back at now, as far as there is room.
func (b *Bucket) Give(now time.Duration, n float64) {
	b.settle(now)
	b.add(-within(n, mostTokens))
	b.settle(now) // what there is no room for is gone
}

// Charge takes n tokens at now for what has happened already, but leaves floor
// if there is as much; a floor below 0 is a debt, and NaN the level. It returns
// how many it took.
func (b *Bucket) Charge(now time.Duration, n, floor float64) float64 {
	room := b.settle(now) - max(floor, -mostTokens)
	n = min(within(n, mostTokens), within(room, 2*mostTokens))
	b.add(n)
	return n
}

// Rate is how fast b fills, in tokens/s.
func (b *Bucket) Rate() float64 { return b.rule.Rate }

// Burst is how many tokens b holds at most.
func (b *Bucket) Burst() float64 { return b.rule.Burst }

// Lower leaves at most tokens at now; NaN changes nothing.
func (b *Bucket) Lower(now time.Duration, tokens float64) {
	if b.settle(now) > tokens {
		b.restart(max(b.since, now), max(tokens, -mostTokens))
	}
}

// Rule changes how b fills at now, and keeps the tokens as far as there is room.
func (b *Bucket) Rule(now time.Duration, rule BucketRule) {
	level := b.settle(now)
	b.rule = rule.sane()
	b.restart(max(b.since, now), min(level, b.rule.Burst))
}

// settle is the level at now. The account begins anew when the bucket is full,
// and before its numbers become too large.
func (b *Bucket) settle(now time.Duration) float64 {
	now = max(now, b.since)
	level := b.base + (b.rule.Rate*(float64(now-b.since)/1e9) - b.taken - b.rest)
	switch {
	case level >= b.rule.Burst:
		b.restart(now, b.rule.Burst)
	case b.taken > settleAfter || b.taken < -settleAfter:
		b.restart(now, level)
	}
	return min(level, b.rule.Burst)
}

func (b *Bucket) restart(now time.Duration, tokens float64) {
	b.since, b.base, b.taken, b.rest = now, tokens, 0, 0
}

// add counts n as taken, exactly: what the sum rounds off is kept beside it.
func (b *Bucket) add(n float64) {
	sum := b.taken + n
	if math.Abs(b.taken) >= math.Abs(n) {
		b.rest += b.taken - sum + n
	} else {
		b.rest += n - sum + b.taken
	}
	b.taken = sum
}
