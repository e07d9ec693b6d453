// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"math"
	"math/big"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/stage"
)

// fractions is a bucket of exact fractions.
type fractions struct{ tokens, limit, burst, at *big.Rat }

func ratOf(f float64) *big.Rat { return new(big.Rat).SetFloat64(f) }

func (b *fractions) fill(now int64) {
	t := big.NewRat(now, 1e9)
	b.tokens.Add(b.tokens, new(big.Rat).Mul(new(big.Rat).Sub(t, b.at), b.limit))
	b.at = t
	if b.tokens.Cmp(b.burst) > 0 {
		b.tokens.Set(b.burst)
	}
}

// For any trace, a Bucket with debt has what a bucket of exact fractions has,
// but for what a token is rounded up by. No token is ever lost.
func TestDebtIsThatOfExactFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := math.Pow(10, rapid.Float64Range(-3, 6).Draw(t, "log10 limit"))
		burst := math.Floor(math.Pow(10, rapid.Float64Range(0, 12).Draw(t, "log10 burst")))
		burst = max(min(burst, limit*1e8), 1)
		debt := time.Duration(math.Pow(10, rapid.Float64Range(6, 13.9).Draw(t, "log10 max_debt")))
		var b Bucket
		p := NewPace(rate.Limit(limit), burst)
		b.Init(p)
		exact := &fractions{tokens: ratOf(burst), limit: ratOf(limit), burst: ratOf(burst), at: new(big.Rat)}
		rounding := 2/float64(p.quanta()) + 1e-12
		now, passed := int64(0), 0.0
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			gap := int64(math.Pow(10, rapid.Float64Range(0, 11).Draw(t, "log10 gap")))
			now, passed = now+gap, passed+float64(gap)/1e9
			n := int64(math.Pow(10, rapid.Float64Range(0, 6).Draw(t, "log10 n")))
			longest := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "longest"))
			exact.fill(now)
			have, _ := exact.tokens.Float64()
			slack := rounding*(passed*limit+burst+debt.Seconds()*limit+float64(n)) + 1e-6*limit*1e-3 + 1e-9*math.Abs(have) + 64/float64(p.quanta())
			if got := b.Tokens(stage.Instant(now)); math.Abs(got-have) > slack {
				t.Fatalf("%v tokens, exactly %v (slack %v)", got, have, slack)
			}
			owed, after := -have, float64(n)-have
			near := math.Abs(owed-longest.Seconds()*limit) < slack || math.Abs(after-debt.Seconds()*limit) < slack+debt.Seconds()*limit/64 || math.Abs(owed) < slack
			want := owed <= longest.Seconds()*limit && after <= debt.Seconds()*limit
			v, _ := b.Take(stage.Request{Now: stage.Instant(now), N: n, Longest: longest}, debt)
			if v.OK() != want && !near {
				t.Fatalf("Take(%d) of %v tokens within %v, debt %v: %+v", n, have, longest, debt, v)
			}
			if v.OK() {
				if math.Abs(v.Wait.Seconds()*limit-max(owed, 0)) > slack {
					t.Fatalf("waits %v with a debt of %v at %v/s", v.Wait, owed, limit)
				}
				exact.tokens.Sub(exact.tokens, big.NewRat(n, 1))
			}
		}
	})
}

// An event that is refused passes after RetryAfter, if no other came, with debt and without, and whatever the caller would wait.
func TestARefusedEventPassesAfterRetryAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		each := time.Duration(math.Pow(10, rapid.Float64Range(0, 14).Draw(t, "log10 ns per token")))
		within := func(most time.Duration, name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name)) * time.Duration(rapid.IntRange(0, 1).Draw(t, name+" or none"))
		}
		var b Bucket
		b.Init(NewPace(rate.Every(each), rapid.Float64Range(1, 10).Draw(t, "burst")))
		now, debt, longest := stage.Instant(0), within(5*each, "max_debt"), within(2*each, "longest")
		for range 5 {
			now = now.Add(within(each, "gap"))
			b.Take(stage.Request{Now: now, N: int64(rapid.IntRange(0, 4).Draw(t, "before")), Longest: stage.Forever}, debt)
		}
		q := stage.Request{Now: now.Add(-within(time.Microsecond, "late")), N: int64(rapid.IntRange(1, 4).Draw(t, "n")), Longest: longest}
		v, _ := b.Take(q, debt)
		if v.OK() || v.RetryAfter == 0 {
			return
		}
		q.Now = q.Now.Add(v.RetryAfter)
		if again, _ := b.Take(q, debt); !again.OK() {
			t.Fatalf("after %v: retry after %v", v.RetryAfter, again.RetryAfter)
		}
	})
}

func TestExtremeTermsDoNoHarm(t *testing.T) {
	for _, limit := range []rate.Limit{0, 1e-12, 1e-3, 1, 1e12, rate.Inf} {
		for _, burst := range []float64{0, 1, 1e12, math.MaxFloat64} {
			for _, debt := range []time.Duration{1, time.Second, 24 * time.Hour, math.MaxInt64} {
				for _, n := range []int64{0, 1, 1e12, 9e18, math.MaxInt64} {
					var b Bucket
					b.Init(NewPace(limit, burst))
					for range 3 {
						before := b.Tokens(0)
						v, _ := b.Take(stage.Request{N: n, Longest: stage.Forever}, debt)
						if after := b.Tokens(0); math.IsNaN(after) || after > before || v.Wait < 0 || v.RetryAfter < 0 || !v.OK() && after != before {
							t.Fatalf("limit %v burst %v debt %v: Take(%d) = %+v, %v tokens, then %v", limit, burst, debt, n, v, before, after)
						}
					}
				}
			}
		}
	}
}
