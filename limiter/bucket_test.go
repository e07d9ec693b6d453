// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"
)

// FuzzBucketIsARateLimiter drives a Bucket and x/time/rate's Limiter with the
// same calls at the same times. Where the two may round a different way (the
// tokens are within tolerance of what is asked) either answer is right and
// the trace ends.
func FuzzBucketIsARateLimiter(f *testing.F) {
	f.Add(10.0, 10, []byte("\x00\x01\x00\x01\x00\x01\x00\xff\x02\x03\x01\x05"))
	f.Add(1e6, 1000, []byte("abcdefghijklmnopqrstuvwxyz0123456789"))
	f.Add(0.01, 3, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01\x09\x09\x09\x02\x10\x10\x10\x03\x20\x20\x20"))
	f.Add(0.0, 5, []byte("\x00\x00\x00\x01\x00\x00\x00\x02\x04\x00\x00\x02\x05\x00\x30\x02\x00\x00\x30\x02"))
	f.Add(float64(rate.Inf), 0, []byte("\x00\x00\x00\x01\x02\x00\x00\x09"))
	f.Fuzz(func(t *testing.T, limit float64, burst int, calls []byte) {
		if limit < 0 || (limit > 1e6 && limit != float64(rate.Inf)) || (limit > 0 && limit < 1e-6) || limit != limit || burst < 0 || burst > 1e6 || len(calls) > 4000 {
			t.Skip("outside of what is compared")
		}
		if limit > 0 && float64(burst)/limit > 1e8 {
			t.Skip("x/time/rate loses whole tokens to rounding")
		}
		compareWithRateLimiter(t, rate.Limit(limit), burst, calls)
	})
}

func compareWithRateLimiter(t *testing.T, limit rate.Limit, burst int, calls []byte) {
	ours, theirs := NewBucket(limit, burst), rate.NewLimiter(limit, burst)
	now := time.Now()
	var held [][2]Reservation
	drift := 1e-6 // each change of rate rounds to 1/8 ns
	for ; len(calls) >= 4; calls = calls[4:] {
		op, gap, n := calls[0]%7, binary.BigEndian.Uint16(calls[1:3]), int(calls[3]%16)
		now = now.Add(time.Duration(gap) * time.Duration(gap) * 100)
		tokens := theirs.TokensAt(now)
		close := drift + float64(limit)*3e-9 + math.Abs(tokens)*1e-9 + float64(max(burst, 1))*float64(limit)*2e-10
		if limit < rate.Inf && math.Abs(ours.TokensAt(now)-tokens) > close {
			t.Fatalf("limit %v burst %d: %v tokens, x/time/rate has %v", limit, burst, ours.TokensAt(now), tokens)
		}
		if math.Abs(tokens-float64(n)) < close || math.Abs(tokens) < close && n == 0 {
			return
		}
		switch op {
		case 0, 1:
			if a, b := ours.AllowN(now, n), theirs.AllowN(now, n); a != b {
				t.Fatalf("limit %v burst %d: AllowN(%d) = %v with %v tokens, x/time/rate says %v", limit, burst, n, a, tokens, b)
			}
		case 2:
			a, b := ours.ReserveN(now, n), theirs.ReserveN(now, n)
			if limit <= 0 && b.OK() && b.DelayFrom(now) == rate.InfDuration {
				return // ours is not OK: it could never act
			}
			if a.OK() != b.OK() {
				t.Fatalf("limit %v burst %d: ReserveN(%d).OK() = %v with %v tokens, x/time/rate says %v", limit, burst, n, a.OK(), tokens, b.OK())
			}
			x, y := a.DelayFrom(now), b.DelayFrom(now)
			if diff := (x - y).Seconds(); math.Abs(diff) > 1e-8+close/math.Max(float64(limit), 1e-9) {
				t.Fatalf("limit %v burst %d: ReserveN(%d) waits %v, x/time/rate %v", limit, burst, n, x, y)
			}
			if y > 0 && y < rate.InfDuration {
				held = append(held, [2]Reservation{a, theirReservation{b}})
			}
		case 3: // cancel the latest: both agree on what follows it
			if len(held) > 0 {
				last := held[len(held)-1]
				held = held[:len(held)-1]
				if last[1].DelayFrom(now) > time.Microsecond {
					last[0].CancelAt(now)
					last[1].CancelAt(now)
				}
			}
		case 4:
			drift = close
			limit = rate.Limit(n * n * 10)
			ours.SetLimitAt(now, limit)
			theirs.SetLimitAt(now, limit)
			held = nil // who reserved at the old rate keeps the old delay
		case 5:
			drift = close
			burst = int(gap % 1000)
			ours.SetBurstAt(now, burst)
			theirs.SetBurstAt(now, burst)
			held = nil
		case 6: // more than the burst never passes
			if limit < rate.Inf && (ours.AllowN(now, burst+1) || theirs.AllowN(now, burst+1)) {
				t.Fatalf("limit %v burst %d: allowed %d at once", limit, burst, burst+1)
			}
		}
		if ours.Limit() != theirs.Limit() || ours.Burst() != theirs.Burst() {
			t.Fatalf("limit %v burst %v, x/time/rate %v %v", ours.Limit(), ours.Burst(), theirs.Limit(), theirs.Burst())
		}
	}
}

// theirReservation lets a *rate.Reservation stand beside ours.
type theirReservation struct{ *rate.Reservation }

func (theirReservation) Used(bool) {}

func TestBucketNeverExceedsLimitTimesTimePlusBurstInParallel(t *testing.T) {
	for _, limit := range []rate.Limit{1, 1000, 333_333, 7_654_321} {
		const burst = 50
		var b bucket
		b.init(newPace(limit, burst))
		// Changes of pace to the same limit must not add tokens either.
		inParallel(t, limit, burst, 997, b.allow, func(now Instant) { b.setPace(now, newPace(limit, burst)) })
	}
}

// inParallel asks allow for 200,000 single tokens, one each step ns, on all
// processors, and holds the sum to limit·t + burst. Meanwhile it calls meanwhile.
func inParallel(t *testing.T, limit rate.Limit, burst float64, step int64, allow func(now Instant) bool, meanwhile func(now Instant)) {
	t.Helper()
	var clock, admitted atomic.Int64
	var wg sync.WaitGroup
	end := 200_000 * step
	for range max(4, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for {
				now := clock.Add(step)
				if now > end {
					return
				}
				if allow(Instant(now)) {
					admitted.Add(1)
				}
			}
		})
	}
	for now := int64(0); now < end; now = clock.Load() {
		meanwhile(Instant(now))
		runtime.Gosched()
	}
	wg.Wait()
	most := float64(limit)*float64(end)/1e9 + burst
	if got := float64(admitted.Load()); got > most {
		t.Errorf("limit %v: admitted %v, more than limit·t + burst = %v", limit, got, most)
	}
}

// Over any trace, in order or not, of any calls: what is taken is never more
// than limit·t + burst, and with demand enough it is not less either.
func TestBucketGivesWhatTheLimitSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := math.Pow(10, rapid.Float64Range(-3, 7).Draw(t, "log10 limit"))
		burst := float64(rapid.IntRange(2, 1_000_000).Draw(t, "burst"))
		span := time.Duration(rapid.Float64Range(0, 100).Draw(t, "tokens") / limit * 1e9)
		var b bucket
		b.init(newPace(rate.Limit(limit), burst))
		if !b.allow(0) {
			t.Fatal("a full bucket refuses")
		}
		if _, ok := b.reserve(0, int64(burst)-1, 0); !ok {
			t.Fatalf("a full bucket does not give its burst of %v", burst)
		}
		taken := 0.0
		for i := range 400 {
			if b.allow(Instant(float64(i) / 399 * float64(span))) {
				taken++
			}
		}
		// A token has up to two quanta (1/8 ns) more than it should.
		ideal := limit * span.Seconds()
		least := math.Floor(math.Min(ideal*(1-limit*1.3e-10), 400)-1e-6) - 1
		if taken > ideal+1e-9 || taken < least {
			t.Fatalf("limit %v over %v: took %v, ideal %v", limit, span, taken, ideal)
		}
	})
}

func TestChangeOfPaceKeepsTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) pace {
			limit := math.Pow(10, rapid.Float64Range(-6, 8).Draw(t, name+" log10 limit"))
			return newPace(rate.Limit(limit), rapid.Float64Range(1, 1e6).Draw(t, name+" burst"))
		}
		p, q := draw("old"), draw("new")
		var b bucket
		b.init(p)
		now := Instant(rapid.Int64Range(-1e18, 1e18).Draw(t, "now"))
		b.cap(now, rapid.Float64Range(-1e3, 1e6).Draw(t, "tokens"))
		before := b.tokens(now)
		b.setPace(now, q)
		want := math.Min(before, q.tokens(0))
		if got := b.tokens(now); got > want+1e-9*math.Abs(want)+1e-8 || got < want-1e-9*math.Abs(want)-0.03 {
			t.Fatalf("%v tokens, then %v", before, got)
		}
	})
}

func TestTimeThatGoesBackwardsAddsNothing(t *testing.T) {
	var b bucket
	b.init(newPace(10, 10))
	for i := range 10 {
		if !b.allow(1e9) {
			t.Fatalf("refused token %d of a full bucket", i)
		}
	}
	for _, now := range []Instant{1e9, 0, -1e17} {
		if b.allow(now) {
			t.Errorf("at %d: allowed an eleventh", now)
		}
	}
}

func TestSuspendedHostGetsOneBurst(t *testing.T) {
	var b bucket
	b.init(newPace(10, 10))
	now := Instant(0)
	for range 3 {
		now += Instant(30 * 24 * time.Hour)
		got := 0
		for b.allow(now) {
			got++
		}
		if got != 10 {
			t.Fatalf("after a month: %d at once, want the burst of 10", got)
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
		var b bucket
		b.init(newPace(rate.Limit(tt.limit), tt.burst))
		var got [10]bool
		for i := range got {
			got[i] = b.allow(0)
		}
		later := b.allow(Instant(time.Hour))
		if got[0] != tt.first || got[9] != tt.tenth || later != tt.later {
			t.Errorf("limit %v burst %v: first %v tenth %v later %v, want %v %v %v",
				tt.limit, tt.burst, got[0], got[9], later, tt.first, tt.tenth, tt.later)
		}
		for _, n := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
			b.reserve(0, n, longestWait)
			b.add(0, float64(n))
			if x := b.tokens(0); math.IsNaN(x) {
				t.Errorf("limit %v burst %v: %v tokens after %d", tt.limit, tt.burst, x, n)
			}
		}
	}
}

func TestBucketAllocatesNothing(t *testing.T) {
	b := NewBucket(1e6, 100)
	if n := testing.AllocsPerRun(100, func() { b.Allow() }); n != 0 {
		t.Errorf("Allow: %v allocations", n)
	}
}

func BenchmarkBucket(b *testing.B) {
	bench := func(name string, limit rate.Limit) {
		b.Run(name+"/headgate", func(b *testing.B) {
			b.ReportAllocs()
			l := NewBucket(limit, 100)
			for b.Loop() {
				l.Allow()
			}
		})
		b.Run(name+"/x-time-rate", func(b *testing.B) {
			b.ReportAllocs()
			l := rate.NewLimiter(limit, 100)
			for b.Loop() {
				l.Allow()
			}
		})
	}
	bench("pass", 1e9)
	bench("reject", 1)
}
