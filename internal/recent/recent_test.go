// SPDX-License-Identifier: Apache-2.0

package recent

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
)

// naive remembers each second of each key for ever.
type naive map[string]map[int64][2]float64

// What is remembered is what happened: by the second, by ten seconds, and not after an hour.
func TestARecorderIsAsItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, twin := New(DefaultSamples), naive{}
		counts := map[string]*[2]int64{}
		keys := []string{"a", "b", "c"}
		now := time.Unix(rapid.Int64Range(1, 1e9).Draw(t, "begin"), 0)
		r.Step(now, func(Add) {})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Second, time.Second, 3 * time.Second, 40 * time.Second, 10 * time.Minute}).Draw(t, "pause"))
			for _, key := range keys {
				switch rapid.IntRange(0, 3).Draw(t, key) {
				case 0: // nothing
				case 1:
					delete(counts, key) // the key is forgotten
				default:
					if counts[key] == nil {
						counts[key] = new([2]int64)
					}
					a, d := rapid.Int64Range(0, 100).Draw(t, "allowed"), rapid.Int64Range(0, 100).Draw(t, "rejected")
					counts[key][0] += a
					counts[key][1] += d
					if twin[key] == nil {
						twin[key] = map[int64][2]float64{}
					}
					was := twin[key][now.Unix()]
					twin[key][now.Unix()] = [2]float64{was[0] + float64(a), was[1] + float64(d)}
				}
			}
			r.Step(now, func(f Add) {
				for key, c := range counts {
					f(key, Tokens{Allowed: c[0], Rejected: c[1]})
				}
			})
		}
		for _, key := range keys {
			var want, got [2]float64
			from := now.Add(-50 * time.Minute)
			for second, v := range twin[key] {
				if second >= from.Unix()/10*10 {
					want[0] += v[0]
					want[1] += v[1]
				}
			}
			last := int64(-1)
			for _, p := range r.Series(key, time.Unix(from.Unix()/10*10, 0)) {
				got[0] += p.Allowed
				got[1] += p.Reject
				if p.Second <= last || p.Length != 1 && p.Length != slot {
					t.Fatalf("%s: %+v after %d", key, p, last)
				}
				last = p.Second
			}
			if got != want {
				t.Fatalf("%s: %v, want %v", key, got, want)
			}
			lately := [2]float64{}
			since, until := now.Add(-30*time.Second), now.Add(-time.Second)
			for second := since.Unix(); second < until.Unix(); second++ {
				lately[0] += twin[key][second][0]
				lately[1] += twin[key][second][1]
			}
			if a, d := r.Amount(key, since, until); [2]float64{a, d} != lately {
				t.Fatalf("%s: lately %v and %v, want %v", key, a, d, lately)
			}
		}
	})
}

// Without keys that are forgotten, nothing is lost.
func TestNothingIsLost(t *testing.T) {
	r := New(DefaultSamples)
	now := time.Unix(1_000_000, 0)
	var allowed, rejected int64
	step := func() {
		r.Step(now, func(f Add) { f("k", Tokens{Allowed: allowed, Rejected: rejected}) })
	}
	allowed, rejected = 100, 5 // of the time before
	step()
	for i := range 3600 {
		now = now.Add(time.Second)
		allowed += int64(i % 7)
		rejected += int64(i % 3)
		step()
	}
	var a, d float64
	fineOnes, slots := 0, 0
	for _, p := range r.Series("k", now.Add(-Hour)) {
		a, d = a+p.Allowed, d+p.Reject
		if p.Length == 1 {
			fineOnes++
		} else {
			slots++
		}
	}
	if a != float64(allowed-100) || d != float64(rejected-5) {
		t.Errorf("%v allowed of %d, %v rejected of %d", a, allowed-100, d, rejected-5)
	}
	if fineOnes < fine*9/10 || fineOnes > fine+tidy+slot || slots < 318 || slots > 332 {
		t.Errorf("%d seconds and %d slots", fineOnes, slots)
	}
	now = now.Add(2 * Hour)
	step()
	now = now.Add(tidy * time.Second)
	step()
	if points := r.Series("k", time.Time{}); len(points) > 0 {
		t.Errorf("after two hours: %v", points)
	}
}

// However many keys there are, there are no more samples than there may be, and the keys
// that are used most stay.
func TestMemoryIsBounded(t *testing.T) {
	const most, keys = 10_000, 5_000
	r := New(most)
	now := time.Unix(1_000_000, 0)
	var n int64
	for range 60 {
		now = now.Add(time.Second)
		n++
		r.Step(now, func(f Add) {
			for k := range keys {
				f(fmt.Sprint("key", k), Tokens{Allowed: n * int64(k+1)})
			}
		})
	}
	now = now.Add(tidy * time.Second)
	r.Step(now, func(Add) {})
	if r.samples > most {
		t.Errorf("%d samples", r.samples)
	}
	top := r.Totals(3)
	if len(top) != 3 || top[0].Key != fmt.Sprint("key", keys-1) || top[0].Allowed != float64((n-1)*keys) {
		t.Errorf("%+v", top)
	}
	if len(r.Series("key0", time.Time{})) != 0 {
		t.Error("the key that is used least stays")
	}
	for range 2 { // no key is in use any more
		now = now.Add(2 * Hour)
		r.Step(now.Truncate(slot*time.Second), func(Add) {})
	}
	if len(r.keys) != 0 || r.samples != 0 {
		t.Errorf("%d keys, %d samples", len(r.keys), r.samples)
	}
}

// Keys that are used once each, as an attacker makes them up, take no more memory than samples may.
func TestKeysThatAreUsedOnceTakeBoundedMemory(t *testing.T) {
	const keys = 1000
	name := strings.Repeat("x", 1000)
	for _, most := range []int{0, 1 << 18} {
		r := New(most)
		now := time.Unix(1_000_000, 0)
		for i := range int64(200) {
			now = now.Add(time.Second)
			r.Step(now, func(f Add) {
				f("honest", Tokens{Allowed: 5 * i})
				for k := range keys {
					f(fmt.Sprint(name, i, k), Tokens{Allowed: 1})
				}
			})
			took := r.samples * sampleSize
			for key := range r.keys {
				took += len(key) + 150
			}
			if bound := (most+most/10+slack)*sampleSize + 2*keys*1200; took > bound {
				t.Fatalf("%d keys take %d bytes after %d s, more than %d", len(r.keys), took, i, bound)
			}
		}
		if points := r.Series("honest", time.Time{}); most > 0 && len(points) < 199 {
			t.Errorf("%d points of the key that is used most", len(points))
		}
	}
}

// Replay rejects what a bucket rejects that gets the same events one by one.
func TestADryRunIsOneBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := &dynamicconfig.Rule{Limit: 10, Burst: rapid.Float64Range(5, 50).Draw(t, "burst")}
		var points []Point
		second, tokens, offered, would := int64(1000), rule.Burst, 0.0, 0.0
		for range rapid.IntRange(1, 50).Draw(t, "periods") {
			gap := rapid.Int64Range(0, 5).Draw(t, "gap")
			second += gap
			tokens = min(tokens+10*float64(gap), rule.Burst)
			n := rapid.IntRange(0, 60).Draw(t, "events")
			p := Point{Second: second, Length: 1, Allowed: float64(n)}
			points = append(points, p)
			for range n { // evenly over the second
				tokens = min(tokens+10/float64(n), rule.Burst)
				if offered++; tokens >= 1-1e-9 {
					tokens--
				} else {
					would++
				}
			}
			if n == 0 {
				tokens = min(tokens+10, rule.Burst)
			}
			second++
		}
		d := Replay(points, rule)
		if d.Offered != offered || math.Abs(d.Would-would) > 1+float64(len(points)) {
			t.Fatalf("%+v, want %v of %v", d, would, offered)
		}
	})
}

func TestReplayOfRules(t *testing.T) {
	points := []Point{{1000, 1, 100, 20, 0}, {1010, 10, 50, 0, 0}}
	for name, tt := range map[string]struct {
		rule  dynamicconfig.Rule
		would float64
	}{
		"nothing":         {dynamicconfig.Rule{}, 170},
		"wide":            {dynamicconfig.Rule{Limit: 1000, Burst: 1000}, 0},
		"as many at once": {dynamicconfig.Rule{Limit: 10, Burst: 10}, 100},
		"soft":            {dynamicconfig.Rule{Limit: 10, Burst: 10, Enforce: dynamicconfig.Soft}, 0},
		"slots":           {dynamicconfig.Rule{Limit: 1, InFlight: true}, 20},
	} {
		if d := Replay(points, &tt.rule); math.Abs(d.Would-tt.would) > 1e-6 || d.Offered != 170 || d.Rejected != 20 {
			t.Errorf("%s: %+v, want %v", name, d, tt.would)
		}
	}
	if d := Unlimited(points, true); d.Would != 170 {
		t.Errorf("denied: %+v", d)
	}
	if d := Unlimited(points, false); d.Would != 0 || peak(points) != 120 {
		t.Errorf("allowed: %+v", d)
	}
	sum := Sum([]Point{{1000, 10, 5, 1, 0}, {1010, 1, 1, 0, 0}}, []Point{{1003, 1, 2, 0, 0}, {1010, 1, 1, 1, 1}})
	if len(sum) != 2 || sum[0] != (Point{1000, 10, 7, 1, 0}) || sum[1] != (Point{1010, 1, 2, 1, 1}) {
		t.Errorf("%+v", sum)
	}
}

func BenchmarkStep(b *testing.B) {
	const keys = 100_000
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("tenant:%06d", i)
	}
	r, now, n := New(DefaultSamples), time.Unix(1_000_000, 0), int64(0)
	for b.Loop() {
		now, n = now.Add(time.Second), n+1
		r.Step(now, func(f Add) {
			for _, name := range names {
				f(name, Tokens{Allowed: n})
			}
		})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}

// What Add returns is what happened since the Step before, and does not need samples.
func TestAddSaysWhatHappened(t *testing.T) {
	r, now := New(0), time.Unix(1000, 0)
	step := func(allowed, rejected, wantA, wantR int64) {
		t.Helper()
		now = now.Add(time.Second)
		r.Step(now, func(add Add) {
			if allowed < 0 {
				return // the key is forgotten
			}
			if got, want := add("k", Tokens{Allowed: allowed, Rejected: rejected}), (Tokens{Allowed: wantA, Rejected: wantR}); got != want {
				t.Errorf("%+v, not %+v", got, want)
			}
		})
	}
	step(100, 50, 0, 0) // of the time before
	step(110, 50, 10, 0)
	step(105, 53, 0, 3) // tokens came back
	step(-1, 0, 0, 0)
	step(7, 2, 7, 2) // it has come to life again
	if points := r.Series("k", time.Unix(0, 0)); len(points) > 0 {
		t.Errorf("without samples, it remembers %v", points)
	}
	for range 2 * tidy {
		step(-1, 0, 0, 0)
	}
	if len(r.keys) > 0 {
		t.Errorf("%d keys that are not in use are remembered", len(r.keys))
	}
}

func peak(points []Point) float64 {
	most, _ := Peak(points)
	return most
}

// Events that cost more than any may are remembered as long as others, and are in no peak.
func TestAPeakHasNoEventsThatCostTooMuch(t *testing.T) {
	r, now := New(1000), time.Unix(1000, 0)
	var c Tokens
	for range 1000 {
		r.Step(now, func(add Add) { add("k", c) })
		now = now.Add(time.Second)
		c.Allowed, c.Rejected, c.Costly = c.Allowed+7, c.Rejected+103, c.Costly+100
	}
	points := r.Series("k", time.Unix(0, 0))
	if most, costly := Peak(points); most != 10 || costly != 99_900 || len(points) > 999-fine {
		t.Errorf("a peak of %v, and %v too costly, in %d points", most, costly, len(points))
	}
}

func TestAmountsAreThoseOfTheirKeysInAnyOrder(t *testing.T) {
	r := New(DefaultSamples)
	now := time.Unix(1e9, 0)
	step := func(allowed ...int64) {
		now = now.Add(time.Second)
		r.Step(now, func(add Add) {
			for i, n := range allowed {
				add(string(rune('a'+i)), Tokens{Allowed: n})
			}
		})
	}
	step(0, 0, 0)
	step(1, 2, 3)
	for _, order := range []string{"abc", "cba", "xabc", "bbb", ""} {
		r.Amounts(now, now.Add(time.Second), func(of Amounts) {
			for _, key := range order {
				want := float64(key-'a') + 1
				if key == 'x' {
					want = 0
				}
				if allowed, rejected := of(string(key)); allowed != want || rejected != 0 {
					t.Errorf("%c of %q: %v and %v, want %v", key, order, allowed, rejected, want)
				}
			}
		})
	}
}
