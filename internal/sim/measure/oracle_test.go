// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math/big"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// exactBucket is the dumb version: a bucket in fractions, without rounding.
type exactBucket struct {
	limit, burst, tokens *big.Rat
	at                   traffic.Time
}

func (b *exactBucket) allow(now traffic.Time, cost int64) (ok, tight bool) {
	passed := big.NewRat(int64(now-b.at), int64(time.Second))
	b.tokens.Add(b.tokens, passed.Mul(passed, b.limit))
	if b.tokens.Cmp(b.burst) > 0 {
		b.tokens.Set(b.burst)
	}
	b.at = now
	left := new(big.Rat).Sub(b.tokens, big.NewRat(cost, 1))
	margin := new(big.Rat).Abs(left)
	tight = margin.Cmp(big.NewRat(1, 100_000)) < 0
	if ok = left.Sign() >= 0; ok {
		b.tokens = left
	}
	return ok, tight
}

// take makes b follow a decision that rounding made.
func (b *exactBucket) take(cost int64) { b.tokens.Sub(b.tokens, big.NewRat(cost, 1)) }

func TestOracleIsAnExactBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 5000).Draw(t, "limit")
		burst := rapid.Int64Range(1, 5000).Draw(t, "burst")
		o := newOracle(float64(limit), float64(burst))
		exact := &exactBucket{big.NewRat(limit, 1), big.NewRat(burst, 1), big.NewRat(burst, 1), 0}
		now := traffic.Time(0)
		for i := range rapid.IntRange(1, 200).Draw(t, "events") {
			now += traffic.Time(rapid.Int64Range(0, int64(100*time.Millisecond)).Draw(t, "gap"))
			cost := rapid.Int64Range(1, 40).Draw(t, "cost")
			want, tight := exact.allow(now, cost)
			got := o.allow(now, cost)
			if got == want {
				continue
			}
			if !tight {
				t.Fatalf("event %d at %s of cost %d: %v, exactly %v", i, now, cost, got, want)
			}
			if got {
				exact.take(cost)
			} else {
				exact.take(-cost)
			}
		}
	})
}

// The oracle shares no code with the limiter, and agrees with it to an event.
func TestOracleAgreesWithTheShippedBucket(t *testing.T) {
	r := traffic.Chance(1, "test", 0)
	o, b := newOracle(730, 100), limiter.NewBucket(rate.Limit(730), 100)
	start := stage.Instant(0).Time()
	now, of, by := traffic.Time(0), 0, 0
	for range 200_000 {
		now += traffic.Time(traffic.Exponential(r) * float64(time.Second) / 1200)
		if o.allow(now, 1) {
			of++
		}
		if b.AllowN(start.Add(now), 1) {
			by++
		}
	}
	if of-by > 1 || by-of > 1 {
		t.Errorf("the oracle admits %d, the bucket %d", of, by)
	}
}

func TestOracleFollowsAChangeOfLimit(t *testing.T) {
	o := newOracle(10, 10)
	if !o.allow(0, 10) || o.allow(0, 1) {
		t.Fatal("a full bucket of 10 gives 10, then nothing")
	}
	o.set(time.Second/2, 100, 20) // 5 tokens so far
	if !o.allow(time.Second/2, 5) || o.allow(time.Second/2, 1) {
		t.Error("a change keeps the tokens that there are")
	}
	if !o.allow(time.Second*6/10, 10) || o.allow(time.Second*6/10, 1) {
		t.Error("the new rate fills it")
	}
	o.set(10*time.Second, 1, 3)
	if o.allow(10*time.Second, 4) || !o.allow(10*time.Second, 3) {
		t.Error("no more tokens than the new burst")
	}
}
