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

const second = stage.Instant(time.Second)

// newBucket returns a full Bucket.
func newBucket(limit rate.Limit, burst float64) *Bucket {
	b := new(Bucket)
	b.Init(NewPace(limit, burst))
	return b
}

// allow asks for n single tokens, and returns how many it got.
func allow(b *Bucket, now stage.Instant, n int) (got int) {
	for range n {
		if ok, _ := b.Allow(now); ok {
			got++
		}
	}
	return got
}

// A Bucket never gives more than the limit and the burst, and with enough
// demand hardly less.
func TestABucketGivesWhatTheLimitSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := math.Pow(10, rapid.Float64Range(-3, 7).Draw(t, "log10 limit"))
		burst := float64(rapid.IntRange(2, 1_000_000).Draw(t, "burst"))
		span := time.Duration(rapid.Float64Range(0, 100).Draw(t, "tokens") / limit * 1e9)
		b := newBucket(rate.Limit(limit), burst)
		if allow(b, 0, 1) != 1 {
			t.Fatal("a full bucket refuses")
		}
		if v, _ := b.Take(stage.Request{N: int64(burst) - 1}, 0); !v.OK() {
			t.Fatalf("a full bucket does not give its burst of %v", burst)
		}
		taken := 0.0
		for i := range 400 {
			taken += float64(allow(b, stage.Instant(float64(i)/399*float64(span)), 1))
		}
		// A token has up to two quanta (1/8 ns) more than it should.
		ideal := limit * span.Seconds()
		least := math.Floor(math.Min(ideal*(1-limit*1.3e-10), 400)-1e-6) - 1
		if taken > ideal+1e-9 || taken < least {
			t.Fatalf("limit %v over %v: took %v, ideal %v", limit, span, taken, ideal)
		}
	})
}

func TestAChangeOfPaceKeepsTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Pace {
			limit := math.Pow(10, rapid.Float64Range(-6, 8).Draw(t, name+" log10 limit"))
			return NewPace(rate.Limit(limit), rapid.Float64Range(1, 1e6).Draw(t, name+" burst"))
		}
		var b Bucket
		b.Init(draw("old"))
		now := stage.Instant(rapid.Int64Range(-1e18, 1e18).Draw(t, "now"))
		b.Cap(now, rapid.Float64Range(-1e3, 1e6).Draw(t, "tokens"))
		before := b.Tokens(now)
		b.SetPace(now, draw("new"))
		want := math.Min(before, b.Pace().Burst())
		if got := b.Tokens(now); got > want+1e-9*math.Abs(want)+1e-8 || got < want-1e-9*math.Abs(want)-0.03 {
			t.Fatalf("%v tokens, then %v", before, got)
		}
	})
}

// x/time/rate allows that too.
func TestAnOlderClockReadingHasTheTokensOfTheLatest(t *testing.T) {
	for name, use := range map[string]func(b *Bucket, now stage.Instant){
		"allow":  func(b *Bucket, now stage.Instant) { b.Allow(now) },
		"take":   func(b *Bucket, now stage.Instant) { b.Take(stage.Request{Now: now, N: 1}, 0) },
		"refuse": func(b *Bucket, now stage.Instant) { b.Take(stage.Request{Now: now, N: 11}, 0) },
		"charge": func(b *Bucket, now stage.Instant) { b.Charge(now, 1, 0, math.Inf(1)) },
		"refund": func(b *Bucket, now stage.Instant) { b.Refund(now, 1) },
		"cap":    func(b *Bucket, now stage.Instant) { b.Cap(now, 9) },
		"pace":   func(b *Bucket, now stage.Instant) { b.SetPace(now, NewPace(10, 10)) },
	} {
		b := newBucket(10, 10)
		allow(b, 0, 5)
		use(b, second)
		if left := int(b.Tokens(second)); left < 9 || allow(b, -second, left+1) != left {
			t.Errorf("%s: %d tokens, and a caller with an older clock reading does not get them", name, left)
		}
	}
}

// A bucket of 10 tokens is empty when a caller or a change comes whose clock
// reading is 100 s older.
func TestAnOlderClockReadingChangesTheBucketAsOfTheLatest(t *testing.T) {
	const latest = stage.Instant(100 * time.Second)
	for name, tt := range map[string]struct {
		change func(b *Bucket)
		want   float64
	}{
		"a charge":       {func(b *Bucket) { b.Charge(0, 3, 0, 10) }, -3},
		"a cap":          {func(b *Bucket) { b.Cap(0, -5) }, -5},
		"a higher limit": {func(b *Bucket) { b.SetPace(0, NewPace(1000, 10)) }, 0},
		"a lower limit":  {func(b *Bucket) { b.SetPace(0, NewPace(0.125, 10)) }, 0},
		"another burst":  {func(b *Bucket) { b.SetPace(0, NewPace(1, 20)) }, 0},
	} {
		var b Bucket
		b.Init(NewPace(1, 10))
		b.Take(stage.Request{Now: latest, N: 10}, 0)
		if tt.change(&b); math.Abs(b.Tokens(latest)-tt.want) > 1e-6 {
			t.Errorf("%s: %v tokens, want %v", name, b.Tokens(latest), tt.want)
		}
	}
}

func TestAnOlderClockReadingWaitsUntilThereAreTokens(t *testing.T) {
	b := newBucket(10, 10)
	b.Charge(second, 11, 0, math.Inf(1))
	r := stage.Request{N: 1, Longest: 1150 * time.Millisecond}
	if v, _ := b.Take(r, 500*time.Millisecond); !v.OK() || v.Wait != 1100*time.Millisecond {
		t.Errorf("%+v, want to wait until the debt is paid, 1.1 s after an older reading", v)
	}
	if v, _ := b.Take(r, 500*time.Millisecond); v.OK() {
		t.Errorf("%+v, longer than the caller would", v)
	}
}

// A caller whose clock reading is older than another's loses at most 1/64 of
// the burst, and gains nothing.
func TestAnOlderClockReadingLosesLittleAndGainsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := math.Pow(10, rapid.Float64Range(-3, 7).Draw(t, "log10 limit"))
		burst := float64(rapid.IntRange(1, 10_000).Draw(t, "burst"))
		b := newBucket(rate.Limit(limit), burst)
		limit = float64(b.Pace().Limit())
		clock := func(tokens float64) stage.Instant { return stage.Instant(tokens / limit * 1e9) }
		first, latest := stage.Instant(math.MaxInt64), stage.Instant(math.MinInt64)
		taken, now := 0.0, 0.0
		for range rapid.IntRange(1, 50).Draw(t, "events") {
			now += rapid.Float64Range(0, burst/10).Draw(t, "tokens") // in tokens, as is all time here
			at := clock(now - rapid.Float64Range(0, 2*burst).Draw(t, "older by"))
			first, latest = min(first, at), max(latest, at)
			n := rapid.Int64Range(1, max(1, int64(burst/5))).Draw(t, "n")
			have := b.Tokens(latest)
			v, _ := b.Take(stage.Request{Now: at, N: n}, 0)
			if v.OK() {
				taken += float64(n)
			} else if float64(n) < have-burst/64-1e-6 {
				t.Fatalf("limit %v burst %v: %d refused with %v tokens", limit, burst, n, have)
			}
		}
		if most := burst + limit*latest.Sub(first).Seconds() + 1e-6; taken > most {
			t.Fatalf("limit %v burst %v: took %v, more than %v", limit, burst, taken, most)
		}
	})
}

func TestTimeThatGoesBackwardsAddsNothing(t *testing.T) {
	b := newBucket(10, 10)
	if got := allow(b, second, 10); got != 10 {
		t.Fatalf("%d tokens in a full bucket of 10", got)
	}
	for _, now := range []stage.Instant{second, 0, -1e17} {
		if allow(b, now, 1) > 0 {
			t.Errorf("at %d: allowed an eleventh", now)
		}
	}
}

func TestASuspendedHostGetsOneBurst(t *testing.T) {
	b := newBucket(10, 10)
	for month := range stage.Instant(3) {
		if got := allow(b, month*second*3600*24*30, 20); got != 10 {
			t.Fatalf("after a month: %d at once, want the burst of 10", got)
		}
	}
}

func TestABucketThatHoldsNoTokenPromisesNone(t *testing.T) {
	for _, limit := range []rate.Limit{0, 10} {
		b := newBucket(limit, 0.5)
		if v, _ := b.Take(stage.Request{N: 1}, 0); v.OK() || v.Reason != stage.Limited || v.RetryAfter != 0 || b.RetryAfter(0, 1) != 0 {
			t.Errorf("limit %v: %+v, a token after %v", limit, v, b.RetryAfter(0, 1))
		}
	}
}

// Bytes, for one, are many tokens. A bucket whose limit is zero for a while keeps all of them.
func TestABucketThatNeverFillsHoldsALargeBurst(t *testing.T) {
	for _, burst := range []float64{1, 1 << 30, 1<<30 + 1, 3e9, 1e10, 1 << 40, maxBurst} {
		for name, b := range map[string]*Bucket{"new": newBucket(0, burst), "changed": newBucket(1e9, burst)} {
			b.Take(stage.Request{Now: second, N: 1}, 0)
			b.SetPace(second, NewPace(0, burst))
			if got := b.Tokens(second); math.Abs(got-(burst-1)) > 1 || b.Pace().Burst() < burst {
				t.Errorf("%s: %v of %v tokens after one was taken", name, got, burst)
			}
			if v, _ := b.Take(stage.Request{Now: second, N: int64(burst) - 1}, 0); !v.OK() {
				t.Errorf("%s: the rest of %v tokens is refused: %+v", name, burst, v)
			}
		}
	}
}

func TestExtremePaces(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, tt := range []struct {
		limit, burst float64
		first, tenth bool // at once
		later        bool // after the tenth, an hour later
	}{
		{limit: 0, burst: 0},
		{limit: 0, burst: 5, first: true},
		{limit: -1, burst: 100, first: true, tenth: true, later: true},
		{limit: nan, burst: nan},
		{limit: nan, burst: 5, first: true},
		{limit: inf, burst: 0, first: true, tenth: true, later: true},
		{limit: inf, burst: nan, first: true, tenth: true, later: true},
		{limit: 1, burst: -5},
		{limit: 1, burst: 0.5},
		{limit: 1, burst: 1, first: true, later: true},
		{limit: 1, burst: inf, first: true, tenth: true, later: true},
		{limit: 1e300, burst: 1, first: true, later: true},
		{limit: 1e300, burst: math.MaxFloat64, first: true, tenth: true, later: true},
		{limit: math.SmallestNonzeroFloat64, burst: 1, first: true},
		{limit: math.SmallestNonzeroFloat64, burst: math.MaxFloat64, first: true, tenth: true, later: true},
		{limit: 1e-11, burst: math.MaxFloat64, first: true, tenth: true, later: true},
		{limit: 1e-11, burst: 5, first: true},
		{limit: 1e12, burst: 1e12, first: true, tenth: true, later: true},
	} {
		b := newBucket(rate.Limit(tt.limit), tt.burst)
		var got [10]bool
		for i := range got {
			got[i], _ = b.Allow(0)
		}
		later, _ := b.Allow(3600 * second)
		if got[0] != tt.first || got[9] != tt.tenth || later != tt.later {
			t.Errorf("limit %v burst %v: first %v tenth %v later %v, want %v %v %v",
				tt.limit, tt.burst, got[0], got[9], later, tt.first, tt.tenth, tt.later)
		}
		for _, n := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
			b.Take(stage.Request{N: n, Longest: stage.Forever}, 0)
			b.Add(0, float64(n))
			if x := b.Tokens(0); math.IsNaN(x) {
				t.Errorf("limit %v burst %v: %v tokens after %d", tt.limit, tt.burst, x, n)
			}
		}
	}
}

// An unlimited bucket lets a part of all events pass, and refuses the rest.
func TestAPartOfAllEventsPasses(t *testing.T) {
	for _, part := range []float64{-1, 0, 0.25, 0.9, 1, 7} {
		b := newBucket(rate.Inf, 1)
		b.SetSalt(42)
		b.SetPass(part)
		got, want := float64(allow(b, 0, 10_000)), 10_000*min(max(part, 0), 1)
		for range 1000 {
			if v, _ := b.Take(stage.Request{N: 10}, 0); v.OK() {
				got++
			}
		}
		if want *= 1.1; math.Abs(got-want) > 4*math.Sqrt(want)+1 || b.Drops() != (part < 1) {
			t.Errorf("%v of all: %v pass, want about %v", part, got, want)
		}
	}
}

func TestAnOlderClockReadingSeesTheTokensThatThereAre(t *testing.T) {
	b := newBucket(10, 10)
	b.Take(stage.Request{Now: second, N: 9}, 0)
	if got := b.Tokens(0); math.Abs(got-1) > 1e-6 {
		t.Errorf("%v tokens, want 1", got)
	}
	b.Take(stage.Request{Now: second, N: 1}, 0)
	if got := b.RetryAfter(0, 2); got != 1200*time.Millisecond { // by that clock
		t.Errorf("two tokens after %v, want 1.2 s", got)
	}
}

// A bucket that is unlimited is never low, whatever the mark and the processor: its tokens are
// infinite, and infinite times nothing is no number.
func TestAnUnlimitedBucketIsNeverLow(t *testing.T) {
	for _, tokens := range []float64{1, math.Inf(1)} {
		b := newBucket(rate.Inf, 1)
		b.SetPass(0)
		b.SetLow(tokens)
		if ok, low := b.Allow(second); ok || low {
			t.Errorf("mark %v: allowed %v, low %v", tokens, ok, low)
		}
	}
}
