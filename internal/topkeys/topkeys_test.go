// SPDX-License-Identifier: Apache-2.0

package topkeys

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever comes, a sum is too small by Behind at most, never too large, and whoever has a
// larger sum than Behind is remembered.
func TestASketchIsAsGoodAsItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 8).Draw(t, "most")
		s, exact := NewSketch(most), map[string]float64{}
		for range rapid.IntRange(1, 30).Draw(t, "passes") {
			keep := rapid.SampledFrom([]float64{0, 0.5, 0.95, 1}).Draw(t, "keep")
			s.Begin(keep)
			for key := range exact {
				exact[key] *= keep
			}
			pass := rapid.MapOfN(rapid.IntRange(0, 40), rapid.Float64Range(0, 100), 0, 40).Draw(t, "pass")
			for i, n := range pass {
				key := fmt.Sprint(i)
				s.Add(key, n)
				exact[key] += n
			}
			s.End()
			if len(s.kept) > most || len(s.places) != len(s.kept) || len(s.fresh) != 0 {
				t.Fatalf("%d of %d keys are remembered, %d are found, %d are fresh", len(s.kept), most, len(s.places), len(s.fresh))
			}
			largest := s.Largest(most)
			if !slices.IsSortedFunc(largest, func(a, b Entry) int { return int(math.Copysign(1, b.Sum-a.Sum)) }) {
				t.Fatalf("not sorted: %v", largest)
			}
			for key, sum := range exact {
				if got := s.Sum(key); got > sum+1e-6 || got < sum-s.Behind()-1e-6 {
					t.Fatalf("%s has %v, and is said to have %v to %v", key, sum, got, got+s.Behind())
				}
			}
		}
	})
}

// On traffic like that of most services, where the i-th key gets 1/i of what the first gets,
// the top is exactly the top.
func TestTheTopOfZipfTrafficIsExact(t *testing.T) {
	const keys, k = 20_000, 10
	w, exact := New(k), make([]float64, keys)
	keep := math.Exp2(-1 / half.Seconds())
	for second := range 120 {
		w.Step(time.Second, func(f func(Count)) {
			for i := range keys {
				// Keys come late and in turns, and what happens to one differs by the second.
				n := 0.0
				if (second+i)%(1+i%3) == 0 {
					n = float64(1+(second*7+i*13)%5) * keys / float64(1+i)
				}
				exact[i] = exact[i]*keep + n*(1-keep)
				f(Count{Key: fmt.Sprint("k", i), Rule: "k*", Allowed: n, Limit: math.Inf(1), Weight: 1})
			}
		})
	}
	order := make([]int, keys)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, exact[b]-exact[a])) })
	var want []string
	for _, i := range order[:k] {
		name := fmt.Sprint("k", i)
		want = append(want, name)
		if got := w.use.Sum(name); math.Abs(got-exact[i]) > 1e-9*exact[i] {
			t.Errorf("%s has %v, not %v", name, got, exact[i])
		}
	}
	slices.Sort(want)
	if got := w.Keys(); !slices.Equal(got, want) {
		t.Errorf("the top is %v, not %v", got, want)
	}
}

func TestEachKindOfKeyIsFound(t *testing.T) {
	w := New(1)
	step := func(counts ...Count) {
		w.Step(time.Second, func(f func(Count)) {
			for _, c := range counts {
				f(c)
			}
		})
	}
	for range 300 {
		step(
			Count{Key: "used", Rule: "a", Allowed: 500, Rejected: 0, Limit: 1e6, Weight: 1},
			Count{Key: "rejected", Rule: "a", Allowed: 1, Rejected: 100, Limit: 1e6, Weight: 1},
			Count{Key: "near", Rule: "b", Allowed: 4, Limit: 5, Weight: 1},
			Count{Key: "held", Rule: "slots", Allowed: 1, Limit: 10, InFlight: true, Held: 5, Weight: 1},
			Count{Key: "skewed", Rule: "a", Allowed: 50, Limit: 1e6, Weight: 4},
			Count{Key: "dull", Rule: "a", Allowed: 10, Limit: 1e6, Weight: 1.1},
		)
	}
	if got := w.Keys(); !slices.Equal(got, []string{"near", "rejected", "skewed", "used"}) {
		t.Errorf("found: %v", got)
	}
	for rule, want := range map[string]float64{"a": 0.0005, "b": 0.8, "slots": 0.5, "other": 0} {
		if got := w.Rule(rule); math.Abs(got-want) > 1e-5 {
			t.Errorf("%s: %v is used, not %v", rule, got, want)
		}
	}
	if got, ok := w.Key("near"); !ok || math.Abs(got.Used-0.8) > 1e-5 || got.Allowed != 299*4 || got.Rejected != 0 {
		t.Errorf("near: %+v, %v", got, ok)
	}
	for range 1000 {
		step()
	}
	if got := w.Keys(); len(got) != 0 || len(w.rules) != 0 || len(w.known) != 0 {
		t.Errorf("keys that nothing happens to stay: %v, %v", got, w.rules)
	}
}

// BenchmarkStep is a second of a host with 100,000 keys in use.
func BenchmarkStep(b *testing.B) {
	const keys = 100_000
	counts := make([]Count, keys)
	for i := range counts {
		counts[i] = Count{Key: fmt.Sprint("tenant:", i), Rule: "tenant:*", Allowed: float64(1 + i%7), Rejected: float64(i % 2), Limit: 100, Weight: 1.2}
	}
	w := New(10)
	b.ReportAllocs()
	for b.Loop() {
		w.Step(time.Second, func(f func(Count)) {
			for _, c := range counts {
				f(c)
			}
		})
	}
}
