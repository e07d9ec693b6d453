// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/stage"
)

func TestABucketIsARateLimiter(t *testing.T) { rapid.Check(t, compareWithRateLimiter) }

func FuzzBucketIsARateLimiter(f *testing.F) { f.Fuzz(rapid.MakeFuzz(compareWithRateLimiter)) }

// compareWithRateLimiter drives a Bucket and an x/time/rate Limiter with the
// same calls at the same times. Where the two may round in another way (the
// tokens are within a tolerance of what is asked) nothing is asked.
func compareWithRateLimiter(t *rapid.T) {
	limit := rate.Limit(rapid.OneOf(
		rapid.SampledFrom([]float64{0, 10, 1e6, float64(rate.Inf)}),
		rapid.Custom(func(t *rapid.T) float64 { return math.Pow(10, rapid.Float64Range(-6, 6).Draw(t, "log10 limit")) }),
	).Draw(t, "limit"))
	burst := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 1_000_000)).Draw(t, "burst")
	if limit > 0 && float64(burst)/float64(limit) > 1e8 {
		t.Skip("x/time/rate loses whole tokens to rounding")
	}
	ours, theirs := NewBucket(limit, burst), rate.NewLimiter(limit, burst)
	type both struct {
		ours   *Reservation
		theirs *rate.Reservation
		n      int
		waits  bool
	}
	var held []both
	now, last := time.Now(), time.Now() // last: when the tokens of both changed
	drift := 1e-6                       // each change of rate rounds to 1/8 ns
	taken := 0                          // since both were full: each token rounds to 1/8 ns, too
	for range rapid.IntRange(50, 200).Draw(t, "calls") {
		n := rapid.IntRange(0, 15).Draw(t, "n")
		gap := time.Duration(rapid.Float64Range(0, 10).Draw(t, "gap in tokens") / max(min(float64(limit), 1e9), 1e-3) * 1e9)
		now = now.Add(gap)
		tokens := theirs.TokensAt(now)
		if tokens == float64(burst) && ours.TokensAt(now) == tokens {
			taken = 0
		}
		close := drift + float64(limit)*3e-9 + math.Abs(tokens)*1e-9 + float64(max(burst, 1)+taken)*float64(limit)*2e-10
		if limit < rate.Inf && math.Abs(ours.TokensAt(now)-tokens) > close {
			t.Fatalf("limit %v burst %d: %v tokens, x/time/rate has %v", limit, burst, ours.TokensAt(now), tokens)
		}
		if math.Abs(tokens-float64(n)) < close || math.Abs(tokens) < close && n == 0 {
			continue
		}
		switch call := rapid.SampledFrom([]string{"allow", "allow", "reserve", "reserve", "cancel", "limit", "burst", "much", "older"}).Draw(t, "call"); call {
		case "allow":
			if a, b := ours.AllowN(now, n), theirs.AllowN(now, n); a == b {
				last, taken = allowedAt(b, now, last), taken+n
			} else {
				t.Fatalf("limit %v burst %d: AllowN(%d) = %v with %v tokens, x/time/rate says %v", limit, burst, n, a, tokens, b)
			}
		case "reserve":
			a, b := ours.ReserveN(now, n), theirs.ReserveN(now, n)
			x, y := a.DelayFrom(now), b.DelayFrom(now)
			if limit <= 0 && b.OK() && y == rate.InfDuration {
				return // ours is not OK: it could never act
			}
			if a.OK() != b.OK() || math.Abs((x-y).Seconds()) > 1e-8+close/math.Max(float64(limit), 1e-9) {
				t.Fatalf("limit %v burst %d: ReserveN(%d) with %v tokens is %v after %v, x/time/rate says %v after %v", limit, burst, n, tokens, a.OK(), x, b.OK(), y)
			}
			if last = allowedAt(b.OK(), now, last); b.OK() {
				taken += n
				held = append(held, both{a, b, n, x > 0 || y > 0})
			}
		case "cancel":
			if len(held) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
			delay := held[i].theirs.DelayFrom(now)
			switch {
			case held[i].waits && delay == 0 && held[i].theirs.DelayFrom(now.Add(-time.Microsecond)) > 0: // ours may act some ns later
			case delay > time.Microsecond:
				held[i].ours.CancelAt(now)
				held[i].theirs.CancelAt(now)
				last = allowedAt(theirs.TokensAt(now) != tokens, now, last)
			case delay == 0: // one that waits for nothing may be partly on top of another: ours gives whole tokens back
				held[i].ours.CancelAt(now)
				held[i].theirs.CancelAt(now)
				if a, b := ours.TokensAt(now), theirs.TokensAt(now); limit < rate.Inf && (a > b+close || a <= b-1-close) {
					t.Fatalf("limit %v burst %d: %v tokens after a cancel, x/time/rate has %v", limit, burst, a, b)
				} else if b-a > close {
					return
				}
			}
			if i < len(held)-1 || delay > 0 && delay.Seconds()*float64(limit) < float64(held[i].n) {
				held = nil // x/time/rate may give back more than was taken, or less, from here on
			} else {
				held = held[:i]
			}
		case "limit":
			last, drift, limit, held = now, close, rate.Limit(n*n*10), nil // a reservation at the old rate keeps its delay
			ours.SetLimitAt(now, limit)
			theirs.SetLimitAt(now, limit)
		case "burst":
			last, drift, burst, held = now, close, n*n, nil
			ours.SetBurstAt(now, burst)
			theirs.SetBurstAt(now, burst)
		case "much": // more than the burst never passes
			if limit < rate.Inf && (ours.AllowN(now, burst+1) || theirs.AllowN(now, burst+1)) {
				t.Fatalf("limit %v burst %d: allowed %d at once", limit, burst, burst+1)
			}
		case "older":
			if rapid.IntRange(0, 9).Draw(t, "end") < 9 {
				continue
			}
			// x/time/rate decides as of the latest call that was allowed.
			then := now.Add(-3 * gap)
			latest := theirs.TokensAt(last)
			a, b := ours.AllowN(then, n), theirs.AllowN(then, n)
			if b && !a && latest > float64(n)+float64(burst)/64 || a && tokens < float64(n) {
				t.Fatalf("limit %v burst %d: AllowN(%d) of %v before = %v with %v tokens, x/time/rate says %v", limit, burst, n, now.Sub(then), a, tokens, b)
			}
			return // x/time/rate has more tokens now
		}
		if ours.Limit() != theirs.Limit() || ours.Burst() != theirs.Burst() {
			t.Fatalf("limit %v burst %v, x/time/rate %v %v", ours.Limit(), ours.Burst(), theirs.Limit(), theirs.Burst())
		}
	}
}

// allowedAt is now if ok, else last.
func allowedAt(ok bool, now, last time.Time) time.Time {
	if ok {
		return now
	}
	return last
}

// These are where a Bucket differs.
func TestABucketAvoidsTheTrapsOfARateLimiter(t *testing.T) {
	now := time.Now()
	b := NewBucket(10, 10)
	if b.AllowN(now, -5) || b.ReserveN(now, -5).OK() || b.TokensAt(now) != 10 {
		t.Error("a negative cost is allowed")
	}
	if NewBucket(0, 1).AllowN(now, 1); NewBucket(0, 0).ReserveN(now, 1).OK() {
		t.Error("a reservation is OK that could never act")
	}
	b.AllowN(now, 10)
	b.AllowN(now.Add(-time.Hour), 1)
	if b.TokensAt(now) != 0 {
		t.Errorf("%v tokens after time has gone back", b.TokensAt(now))
	}
}

func TestABucketIsAStage(t *testing.T) {
	s := NewBucket(10, 10).Stage()
	v, receipt := s.Take(t.Context(), stage.Request{Now: second, N: 8})
	if s.Settle(second, receipt, 3); !v.OK() || s.Level(second).Tokens != 7 {
		t.Errorf("%+v, and 3 of 8: %+v", v, s.Level(second))
	}
	_, receipt = s.Take(t.Context(), stage.Request{Now: second, N: 1})
	s.Settle(second, receipt, 9)
	if s.Level(second).Tokens != -2 {
		t.Errorf("9 of 7: %+v", s.Level(second))
	}
	s.Cap(2*second, 1)
	if s.Level(2*second).Tokens != 1 {
		t.Errorf("capped to 1: %+v", s.Level(2*second))
	}
}

// Code that takes a *Limiter gets one of the same tokens.
func TestABucketIsALimiter(t *testing.T) {
	b := NewBucket(0, 3)
	l := b.Limiter()
	if !l.Allow() || !b.AllowN(time.Now(), 2) || l.Allow() || b.Allow() {
		t.Error("the tokens are not the same")
	}
	b.SetLimit(10)
	if l.Limit() != 10 {
		t.Errorf("the limit is %v", l.Limit())
	}
}

func TestABucketAllocatesNothing(t *testing.T) {
	b := NewBucket(1e6, 100)
	if n := testing.AllocsPerRun(100, func() { b.Allow() }); n != 0 {
		t.Errorf("Allow: %v allocations", n)
	}
}

func TestACancelGivesAllBackThoughTokensAreRounded(t *testing.T) {
	b, now := NewBucket(31_623, 1), time.Now()
	b.AllowN(now, 1)
	r := b.ReserveN(now, 1)
	b.ReserveN(now, 1)
	now = now.Add(20 * time.Microsecond)
	before := b.TokensAt(now)
	b.ReserveN(now, 1).CancelAt(now)
	if got := b.TokensAt(now); got != before {
		t.Errorf("%v tokens, %v before", got, before)
	}
	if r.CancelAt(now); b.TokensAt(now) != before {
		t.Errorf("%v tokens, %v before: another has reserved on top of it", b.TokensAt(now), before)
	}
	late := NewBucket(31_623, 1)
	late.AllowN(now, 1)
	r = late.ReserveN(now, 1)
	now = now.Add(20 * time.Microsecond)
	before = late.TokensAt(now)
	if r.CancelAt(now); late.TokensAt(now) != before+1 {
		t.Errorf("%v tokens, %v before", late.TokensAt(now), before)
	}
}

// Callers pass times that are none: the zero time, the beginning of 1970, the
// end of time. As with x/time/rate, one of them costs a Bucket no more than the
// tokens that it asks for.
func TestATimeThatIsNoneBreaksNoBucket(t *testing.T) {
	for _, odd := range []time.Time{
		{},
		time.Unix(0, 0), time.Date(1987, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2006, 1, 2, 0, 0, 0, 0, time.UTC),
		time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		for _, limit := range []rate.Limit{0.001, 10, 1e6} {
			for name, use := range map[string]func(b *Bucket) (taken int){
				"allow":   func(b *Bucket) int { return map[bool]int{true: 1}[b.AllowN(odd, 1)] },
				"reserve": func(b *Bucket) int { b.ReserveN(odd, 1); return 1 },
				"cancel":  func(b *Bucket) int { b.ReserveN(odd, 1).CancelAt(odd); return 0 },
				"limit":   func(b *Bucket) int { b.SetLimitAt(odd, limit); return 0 },
				"burst":   func(b *Bucket) int { b.SetBurstAt(odd, 5); return 0 },
				"tokens":  func(b *Bucket) int { b.TokensAt(odd); return 0 },
			} {
				for before := range 2 { // first or not
					b, now := NewBucket(limit, 5), time.Now()
					if before > 0 {
						b.AllowN(now, before)
					}
					least := float64(5 - before - use(b))
					if got := b.TokensAt(now); got < least-0.01 || got > 5 {
						t.Errorf("%v at %v after %d: %v tokens, want %v to 5", name, odd, before, got, least)
					}
					now = now.Add(time.Duration(6 / float64(limit) * 1e9))
					if !b.AllowN(now, 5) || b.AllowN(now, 1) {
						t.Errorf("%v at %v after %d: not full, or too full, later", name, odd, before)
					}
					if got := b.TokensAt(now); math.Abs(got) > 0.01 {
						t.Errorf("%v at %v after %d: %v tokens, want 0", name, odd, before, got)
					}
				}
			}
		}
	}
}

func TestALimitThatIsNoneIsZero(t *testing.T) {
	for _, limit := range []rate.Limit{rate.Limit(math.NaN()), -1, rate.Limit(math.Inf(-1)), 0} {
		set := NewBucket(100, 5)
		set.SetLimit(limit)
		set.SetBurst(-5)
		for _, b := range []*Bucket{NewBucket(limit, -5), set} {
			if b.Limit() != 0 || b.Burst() != 0 || b.Tokens() > 1e-6 || b.Allow() {
				t.Errorf("of %v: a limit of %v, a burst of %v and %v tokens", limit, b.Limit(), b.Burst(), b.Tokens())
			}
		}
		b := NewBucket(limit, 5)
		b.Allow()
		if got := b.Stage().Level(stage.Now()).Missing(); got != 1 {
			t.Errorf("of %v: %d tokens are missing after one was taken", limit, got)
		}
	}
}

// Times within a century of now are told apart.
func TestABucketFillsThroughACentury(t *testing.T) {
	now := time.Now()
	b := NewBucket(1, 5)
	for years := -100; years <= 100; years += 50 {
		if at := now.AddDate(years, 0, 0); !b.AllowN(at, 5) || b.AllowN(at, 1) {
			t.Errorf("in %d years, the bucket has not 5 tokens", years)
		}
	}
}
