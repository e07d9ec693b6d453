// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/stage"
)

// fastLimits are limits in bytes per second, such as 1.25e9 of a line of 10 Gbit/s.
var fastLimits = []rate.Limit{1e7, 1e8, 3e8, 1.25e9, 7e9, 1e10, 3e10, 1e11, 1e12}

// A Bucket of bytes gives a thousandth less than its limit at most. Above 3e10/s rounding
// costs more.
func TestAFastBucketGivesWhatTheLimitSays(t *testing.T) {
	const packet = 1500
	for _, limit := range fastLimits {
		lost := 1e-3 * max(1, float64(limit)/8e9)
		if got := NewPace(limit, 1e6).Limit(); got > limit*(1+1e-12) || float64(got) < float64(limit)*(1-lost) {
			t.Errorf("%v/s is %v/s", limit, got)
		}
		b := newBucket(limit, 1e6)
		b.Cap(0, 0)
		span := 1e5 * packet / float64(limit) // seconds in which 1e5 packets fit
		taken := 0.0
		for i := range 200_000 { // twice as many
			at := stage.Instant(float64(i+1) / 200_000 * span * 1e9)
			if v, _ := b.Take(stage.Request{Now: at, N: packet}, 0); v.OK() {
				taken += packet
			}
		}
		if ideal := float64(limit) * span; taken > ideal || taken < ideal*(1-lost)-2*packet {
			t.Errorf("%v/s: %v of %v", limit, taken, ideal)
		}
	}
}

// Rules allow waits and debts of 24 hours, and bursts and costs of 1e12.
func TestAFastBucketBorrowsForADay(t *testing.T) {
	const day = 24 * time.Hour
	for _, limit := range fastLimits {
		b := newBucket(limit, 1e12)
		owed := int64(float64(b.Pace().Limit()) * day.Seconds() * (1 - 1e-9))
		v, _ := b.Take(stage.Request{N: owed + 1e12, Longest: day}, day)
		if got := b.Tokens(0); !v.OK() || math.Abs(got+float64(owed)) > float64(owed)*1e-9 {
			t.Errorf("%v/s: %+v, and has %v tokens, want a debt of %d", limit, v, got, owed)
		}
		if b.Charge(0, 1e12, day, 1e12); b.Tokens(0) > -float64(owed)-0.999e12 {
			t.Errorf("%v/s: %v tokens after a charge, of a debt of %d", limit, b.Tokens(0), owed)
		}
	}
}

// Quanta of fast buckets wrap around after days. A bucket that nobody used for longer is full.
func TestABucketThatIsNotUsedForLongIsFull(t *testing.T) {
	const burst = 100_000
	for name, first := range map[string]func(b *Bucket, now stage.Instant) bool{
		"take": func(b *Bucket, now stage.Instant) bool {
			v, _ := b.Take(stage.Request{Now: now, N: 1}, 0)
			return v.OK()
		},
		"cached": func(b *Bucket, now stage.Instant) bool {
			c := newCaches(b, 2)
			b.caches.Store(c)
			ok, _, known := c.allow(now, &c.each[0])
			return known && ok || !known && allow(b, now, 1) == 1
		},
		"retry":  func(b *Bucket, now stage.Instant) bool { return b.RetryAfter(now, burst) == 0 && allow(b, now, 1) == 1 },
		"tokens": func(b *Bucket, now stage.Instant) bool { return b.Tokens(now) == burst && allow(b, now, 1) == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				limit := rapid.SampledFrom(fastLimits).Draw(t, "limit")
				b := newBucket(limit, burst)
				p := b.Pace()
				start := stage.Instant(rapid.Int64Range(-1e18, 1e18).Draw(t, "start")) + 1234567
				debt := rapid.Int64Range(0, burst).Draw(t, "debt")
				b.Take(stage.Request{Now: start, N: burst + debt}, 24*time.Hour)
				halfTurns := rapid.Uint64Range(1, 8).Draw(t, "half turns")
				around := halfTurns << (63 - p.left())
				now := start.Add(time.Duration(min(around, 1<<60)) +
					time.Duration(rapid.Float64Range(-1, 3).Draw(t, "depths")*float64(p.duration(p.depth))))
				if !first(b, now) {
					t.Fatal("the first event is refused")
				}
				if got := b.Tokens(now); got != burst-1 {
					t.Fatalf("%v tokens are left, want %d", got, burst-1)
				}
				if v, _ := b.Take(stage.Request{Now: now, N: burst - 1}, 0); !v.OK() {
					t.Fatal("a full bucket does not give its burst")
				}
				if allow(b, now, 1) != 0 {
					t.Fatal("the bucket gives more than its burst")
				}
			})
		})
	}
}

// Allow alone may find less than a burst then, and never more.
func TestABucketThatIsNotUsedForLongAllowsNoMoreThanItsBurst(t *testing.T) {
	const burst = 1000
	rapid.Check(t, func(t *rapid.T) {
		b := newBucket(rapid.SampledFrom(fastLimits).Draw(t, "limit"), burst)
		p := b.Pace()
		turn := float64(uint64(1) << (63 - p.left())) // half a turn, in ns
		idle := turn * float64(rapid.IntRange(0, 4).Draw(t, "half turns")+1) * rapid.Float64Range(0.5, 1).Draw(t, "part")
		depths := float64(p.duration(p.depth)) * rapid.Float64Range(-2, 2).Draw(t, "depths")
		start := stage.Instant(rapid.Int64Range(-1e18, 1e18).Draw(t, "start")) + 1234567
		b.Take(stage.Request{Now: start, N: burst}, 0)
		now := start.Add(time.Duration(min(max(idle+depths, float64(time.Hour)), 1<<60)))
		if got := allow(b, now, 2*burst); got > burst {
			t.Fatalf("%d are allowed of a burst of %d", got, burst)
		}
		now = now.Add(2 * p.duration(p.depth))
		if got := allow(b, now, 2*burst); got != burst {
			t.Fatalf("%d are allowed of a burst of %d when it has filled again", got, burst)
		}
	})
}
