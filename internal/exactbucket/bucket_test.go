// SPDX-License-Identifier: Apache-2.0

package exactbucket

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBucketTraces(t *testing.T) {
	const ms = time.Millisecond
	type step struct {
		at      time.Duration
		n       float64
		longest time.Duration
		want    Verdict
	}
	ok := func(wait time.Duration) Verdict { return Verdict{OK: true, Wait: wait} }
	no := func(retry time.Duration) Verdict { return Verdict{Retry: retry} }
	for _, tt := range []struct {
		name  string
		rule  Rule
		steps []step
	}{
		{"own tokens", Rule{Rate: 10, Burst: 2}, []step{
			{0, 1, 0, ok(0)},
			{0, 1, 0, ok(0)},
			{0, 1, 0, no(100 * ms)},
			{60 * ms, 1, 0, no(40 * ms)},
			{60 * ms, 1, 40 * ms, ok(40 * ms)},
			{60 * ms, 1, 40 * ms, no(100 * ms)},
			{60 * ms, 0, 0, ok(0)}, // to take none is always OK
			{200 * ms, 1, 0, ok(0)},
			{200 * ms, 3, -1, no(Never)}, // burst size is 2, so n=3 always fails
			{10 * time.Second, 2, 0, ok(0)},
			{10 * time.Second, 0.5, 0, no(50 * ms)}, // no more than the burst, however long it was idle
		}},
		{"a longest wait can only be lowered", Rule{Rate: 10, Burst: 1, MaxWait: 100 * ms}, []step{
			{0, 1, -1, ok(0)},
			{0, 1, time.Hour, ok(100 * ms)},
			{0, 1, -1, no(100 * ms)},
			{0, 1, 150 * ms, no(100 * ms)},
			{0, 1, 50 * ms, no(150 * ms)},
		}},
		// Facts of quotaservice, conformance cases 1 and 2.
		{"debt: the next one waits", Rule{Rate: 5, Burst: 10, MaxWait: time.Second, MaxDebt: 10 * time.Second, MaxCost: 5}, []step{
			{0, 5, -1, ok(0)},
			{0, 5, -1, ok(0)},
			{0, 5, -1, ok(0)},
			{0, 5, -1, ok(time.Second)},
			{0, 5, -1, no(time.Second)},
			{0, 5, -1, no(time.Second)},
			{0, 6, -1, no(Never)},
		}},
		{"debt of 500 ms", Rule{Rate: 10, Burst: 10, MaxDebt: 500 * ms, MaxCost: 100}, []step{
			{0, 16, -1, no(Never)},
			{0, 15, -1, ok(0)},
			{0, 1, -1, no(100 * ms)},
			{100 * ms, 1, 0, no(400 * ms)},
			{500 * ms, 1, 0, ok(0)},
		}},
		{"a limit of nothing", Rule{Rate: 0, Burst: 2}, []step{
			{0, 2, -1, ok(0)},
			{time.Hour, 1, -1, no(Never)},
		}},
		{"time that goes backwards stands still", Rule{Rate: 1, Burst: 1}, []step{
			{time.Minute, 1, 0, ok(0)},
			{0, 1, 0, no(time.Second)},
			{time.Minute + time.Second, 1, 0, ok(0)},
		}},
		{"no sense", Rule{Rate: 1, Burst: 1}, []step{
			{0, math.NaN(), -1, no(Never)},
			{0, -1, -1, no(Never)},
			{0, math.Inf(1), -1, no(Never)},
			{0, 1, 0, ok(0)},
		}},
		{"limits of no sense", Rule{Rate: math.NaN(), Burst: math.Inf(-1)}, []step{
			{0, 1, -1, no(Never)},
		}},
		{"the largest numbers", Rule{Rate: math.Inf(1), Burst: math.Inf(1)}, []step{
			{0, 1 << 53, 0, ok(0)},
			{0, 1 << 53, 0, no(1)},
			{1, 1 << 53, 0, ok(0)},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := New(0, tt.rule)
			for i, s := range tt.steps {
				if got := b.Take(s.at, s.n, s.longest); got != s.want {
					t.Fatalf("step %d, at %v: %v tokens within %v: got %+v, want %+v", i, s.at, s.n, s.longest, got, s.want)
				}
			}
		})
	}
}

// exactBucket is the dumb version: rational numbers, brought up to date at
// every call.
type exactBucket struct {
	rule  Rule
	at    time.Duration
	level *big.Rat
}

func rat(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

func (b *exactBucket) settle(now time.Duration) {
	fill := new(big.Rat).Mul(rat(b.rule.Rate), big.NewRat(int64(now-b.at), 1e9))
	b.at = now
	b.level.Add(b.level, fill)
	if burst := rat(b.rule.Burst); b.level.Cmp(burst) > 0 {
		b.level = burst
	}
}

func (b *exactBucket) add(n float64) { b.level.Add(b.level, rat(n)) }

func (b *exactBucket) tokens() float64 {
	f, _ := b.level.Float64()
	return f
}

// Each step is taken by both. Where they differ, it is by what decides: less
// than a billionth of a token, or of what the numbers are.
func TestBucketDoesNotDriftFromRationalNumbers(t *testing.T) {
	for _, rule := range []Rule{
		{Rate: 1000, Burst: 1000},
		{Rate: 1.0 / 3, Burst: 7.5},
		{Rate: 1.0 / 3600, Burst: 1e6}, // asked every few ns, it fills by 10⁻¹³ at a time
		{Rate: 1e9 / 7, Burst: 1e9},
		{Rate: 1e-4, Burst: 1},
		{Rate: 3e6, Burst: 10},
	} {
		t.Run(fmt.Sprint(rule), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(1, 2))
			b := New(0, rule)
			dumb := &exactBucket{rule: rule, level: rat(rule.Burst)}
			var now time.Duration
			for i := range 4000 {
				mean := []float64{3, 1e9 / rule.Rate, 50e9 / rule.Rate}[chance.IntN(3)]
				now += time.Duration(chance.ExpFloat64() * mean)
				n := []float64{1, 0.1, float64(chance.IntN(5)), rule.Burst * chance.Float64()}[chance.IntN(4)]
				n = min(n, rule.Burst)
				longest := time.Duration(chance.IntN(2)) * time.Duration(1e9/rule.Rate)
				dumb.settle(now)
				before := dumb.tokens()
				got := b.Take(now, n, longest)
				if got.OK {
					dumb.add(-n)
				}
				short := n - before
				scale := 1e-8 * max(1, math.Abs(before), n)
				if patient := rule.Rate * longest.Seconds(); n > 0 && got.OK != (short <= patient) && math.Abs(short-patient) > scale {
					t.Fatalf("call %d at %v: %v tokens of %v within %v: %+v", i, now, n, before, longest, got)
				}
				if level := b.Level(now); math.Abs(level-dumb.tokens()) > scale {
					t.Fatalf("call %d: %v tokens, and there should be %v", i, level, dumb.tokens())
				}
			}
		})
	}
}

// What a quarter of a million refusals a second leave of a slow limit is all of it.
func TestBucketLosesNoFractionToRefusals(t *testing.T) {
	rule := Rule{Rate: 10, Burst: 1}
	b := New(0, rule)
	admitted := 0
	const every, seconds = 4 * time.Microsecond, 30
	for now := time.Duration(0); now < seconds*time.Second; now += every {
		if b.Take(now, 1, 0).OK {
			admitted++
		}
	}
	if want := seconds * 10; admitted != want {
		t.Errorf("admitted %d of %d", admitted, want)
	}
}

// The account begins anew many times, and loses nothing by it.
func TestBucketOfMuchUse(t *testing.T) {
	rule := Rule{Rate: 1e9, Burst: 1e6}
	b := New(0, rule)
	admitted, now := 0.0, time.Duration(0)
	for range 500_000 {
		now += 100 * time.Microsecond
		for _, n := range []float64{60_010.1, 40_000.3, 0.7} {
			if b.Take(now, n, 0).OK {
				admitted += n
			}
		}
	}
	if most := 1e9*now.Seconds() + 1e6; admitted > most+100 || admitted < most-2e5 {
		t.Errorf("admitted %v of %v: %v too many", admitted, most, admitted-most)
	}
}

func TestWhoComesBackWhenToldIsServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1e-3, 1e8).Draw(t, "rate")
		burst := rapid.Float64Range(1, 1e6).Draw(t, "burst")
		b := New(0, Rule{Rate: rate, Burst: burst, MaxDebt: rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "debt")})
		now := time.Duration(0)
		for range 30 {
			n := rapid.Float64Range(0, burst).Draw(t, "n")
			got := b.Take(now, n, 0)
			if got.OK || got.Retry == Never {
				continue
			}
			now += got.Retry
			if again := b.Take(now, n, 0); !again.OK {
				t.Fatalf("told to come back after %v for %v tokens, and then %+v", got.Retry, n, again)
			}
		}
	})
}

func TestBucketKeepsItsBounds(t *testing.T) {
	odd := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64}))
	durations := rapid.OneOf(rapid.Int64Range(-1, 1e10), rapid.Int64Range(0, math.MaxInt64))
	rapid.Check(t, func(t *rapid.T) {
		duration := func(name string) time.Duration { return time.Duration(durations.Draw(t, name)) }
		rule := func() Rule {
			return Rule{odd.Draw(t, "rate"), odd.Draw(t, "burst"), duration("wait"), duration("debt"), odd.Draw(t, "cost")}
		}
		b := New(0, rule())
		var now time.Duration
		for range 40 {
			now = max(now, duration("now"))
			switch rapid.IntRange(0, 5).Draw(t, "do") {
			case 0, 1:
				longest := duration("longest")
				got := b.Take(now, odd.Draw(t, "n"), longest)
				if got.Wait < 0 || got.Retry < 0 || got.OK && (got.Retry != 0 || longest >= 0 && got.Wait > longest) || !got.OK && (got.Retry == 0 || got.Wait != 0) {
					t.Fatalf("%+v within %v", got, longest)
				}
			case 2:
				b.Give(now, odd.Draw(t, "n"))
			case 3:
				b.Charge(now, odd.Draw(t, "n"), odd.Draw(t, "floor"))
			case 4:
				b.Lower(now, odd.Draw(t, "n"))
			case 5:
				before := b.Level(now)
				b.Rule(now, rule())
				if level := b.Level(now); level > before {
					t.Fatalf("a new rule gives %v tokens where there were %v", level, before)
				}
			}
			if level := b.Level(now); !(level <= b.rule.Burst) || math.IsInf(level, 0) {
				t.Fatalf("level %v of %v", level, b.rule.Burst)
			}
		}
	})
}

func TestBucketGivesAndCharges(t *testing.T) {
	b := New(0, Rule{Rate: 1, Burst: 10})
	want := func(what string, tokens float64) {
		t.Helper()
		if got := b.Level(0); got != tokens {
			t.Errorf("%s: %v tokens, want %v", what, got, tokens)
		}
	}
	b.Charge(0, 4, math.Inf(-1))
	want("charged", 6)
	b.Give(0, 1)
	want("given back", 7)
	b.Charge(0, 20, 0)
	want("charged down to empty", 0)
	b.Charge(0, 3, math.Inf(-1))
	want("charged into debt", -3)
	b.Charge(0, 3, 0)
	want("what is in debt is not charged more, nor less", -3)
	b.Give(0, 100)
	want("no more than the burst", 10)
	b.Lower(0, 12)
	want("not raised", 10)
	b.Lower(0, 2)
	want("lowered", 2)
	b.Rule(0, Rule{Rate: 5, Burst: 100})
	want("a new rule", 2)
	if got := b.Level(time.Second); got != 7 {
		t.Errorf("under the new rule: %v", got)
	}
	if b.Full(time.Second) || !b.Full(time.Minute) {
		t.Error("when is it full?")
	}
}

func BenchmarkBucket(b *testing.B) {
	bucket := New(0, Rule{Rate: 1e6, Burst: 1000})
	var now time.Duration
	b.ReportAllocs()
	for b.Loop() {
		now += 700
		bucket.Take(now, 1, 0)
	}
}

// A take that is less than what the last bit of the sum is worth counts too.
func TestBucketCountsTheSmallestTakes(t *testing.T) {
	b := New(0, Rule{Rate: 0, Burst: 1e9})
	b.Take(0, 9e8, 0)
	const takes, n = 1_000_000, 3e-8
	for range takes {
		b.Take(0, n, 0)
	}
	if got, want := b.Level(0), 1e8-takes*n; math.Abs(got-want) > 1e-3 {
		t.Errorf("%v tokens left; want %v", got, want)
	}
}

// A limit becomes 0 for a moment, and then is a millionth of what it was. A debt does not take
// a million times longer to pay back.
func TestADebtFollowsALimitThatWasZero(t *testing.T) {
	b := New(0, Rule{Rate: 1e6, Burst: 1e6})
	b.Charge(0, 1e9, -1e6)
	b.Follow(1, Rule{})
	b.Follow(2, Rule{Rate: 1, Burst: 1})
	if got := b.Level(2); got < -2 {
		t.Errorf("%v tokens at 1/s", got)
	}
}

// A bucket to which more was given back than was taken from it gives out all that it has.
func TestWhatWasGivenBackIsThereToTake(t *testing.T) {
	for _, n := range []float64{1, 1e6, 2e6, 1e9, 1 << 29} {
		b := New(0, Rule{Rate: 1, Burst: 1 << 30})
		b.Lower(0, 0)
		b.Give(0, n)
		if v := b.Take(0, n, 0); v != (Verdict{OK: true}) {
			t.Errorf("%v of %v: %+v", n, n, v)
		}
	}
}
