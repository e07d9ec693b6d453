// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// wantBands are claims as in the tables: what each wants, and for how many.
func wantBands(rows ...[2]float64) []Band {
	bands := make([]Band, len(rows))
	for i, r := range rows {
		bands[i] = Band{Wants: r[0], Clients: int64(r[1])}
	}
	return bands
}

func TestSplits(t *testing.T) {
	for _, tt := range []struct {
		name     string
		way      way
		capacity float64
		claims   []Band
		want     []float64
	}{
		{"none", noneWay, 100, wantBands([2]float64{10, 1}, [2]float64{100, 1}), []float64{10, 100}},
		{"static", staticWay, 100, wantBands([2]float64{100, 1}, [2]float64{10, 1}, [2]float64{120, 1}), []float64{100, 10, 100}},
		{"static counts claimants", staticWay, 100, wantBands([2]float64{1000, 10}), []float64{100}},

		{"fair", fair, 120, wantBands([2]float64{1000, 1}, [2]float64{60, 1}, [2]float64{10, 1}), []float64{55, 55, 10}},
		{"fair", fair, 120, wantBands([2]float64{1000, 1}, [2]float64{50, 1}, [2]float64{10, 1}), []float64{60, 50, 10}},
		{"fair by clients", fair, 120, wantBands([2]float64{1000, 6}, [2]float64{500, 4}, [2]float64{200, 2}), []float64{60, 40, 20}},
		{"fair by clients", fair, 1000, wantBands([2]float64{2000, 10}, [2]float64{500, 10}, [2]float64{700, 30}), []float64{200, 200, 600}},
		{"tutorial, fair", fair, 1000, wantBands([2]float64{100, 1}, [2]float64{100, 1}, [2]float64{100, 1}, [2]float64{100, 1}, [2]float64{1000, 1}, [2]float64{2000, 1}), []float64{100, 100, 100, 100, 300, 300}},
		// Two rounds end at 100 and 0.
		{"fair to ten and one", fair, 100, wantBands([2]float64{1000, 10}, [2]float64{30, 1}), []float64{1000. / 11, 100. / 11}},
		{"enough", fair, 100, wantBands([2]float64{50, 1}, [2]float64{50, 3}), []float64{50, 50}},
		// More rounds than two.
		{"many levels", fair, 31, wantBands([2]float64{1, 1}, [2]float64{2, 1}, [2]float64{4, 1}, [2]float64{8, 1}, [2]float64{16, 1}, [2]float64{32, 1}), []float64{1, 2, 4, 8, 8, 8}},

		{"proportional", proportional, 120, wantBands([2]float64{60, 1}, [2]float64{60, 1}, [2]float64{10, 1}), []float64{55, 55, 10}},
		{"proportional by clients", proportional, 120, wantBands([2]float64{65, 3}, [2]float64{45, 2}, [2]float64{20, 1}), []float64{60, 40, 20}},
		{"proportional", proportional, 120, wantBands([2]float64{1000, 1}, [2]float64{50, 1}, [2]float64{10, 1}), []float64{69.69072165, 40.309278351, 10}},
		{"tutorial, proportional", proportional, 100, wantBands([2]float64{10, 1}, [2]float64{10, 1}, [2]float64{10, 1}, [2]float64{10, 1}, [2]float64{500, 1}, [2]float64{1000, 1}), []float64{10, 10, 10, 10, 25.454545455, 34.545454545}},
		{"enough", proportional, 100, wantBands([2]float64{90, 1}, [2]float64{10, 1}), []float64{90, 10}},

		{"none", fair, 100, nil, nil},
		{"none", proportional, 100, nil, nil},
		{"no capacity", fair, 0, wantBands([2]float64{1, 1}, [2]float64{0, 1}), []float64{0, 0}},
		{"no capacity", proportional, 0, wantBands([2]float64{1, 1}, [2]float64{0, 1}), []float64{0, 0}},
		{"no number", fair, math.NaN(), wantBands([2]float64{1, 1}), []float64{0}},
		{"no number", proportional, 100, wantBands([2]float64{math.NaN(), 1}, [2]float64{-1, 1}, [2]float64{math.Inf(1), 1}), []float64{0, 0, 100}},
		{"no clients", fair, 100, wantBands([2]float64{100, 0}, [2]float64{100, -5}), []float64{50, 50}},
	} {
		got := tt.way.Split(tt.capacity, tt.claims)
		if !slices.EqualFunc(got, tt.want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-8 }) {
			t.Errorf("%s: %v of %v: got %v, want %v", tt.name, tt.claims, tt.capacity, got, tt.want)
		}
	}
}

// amounts are numbers of all sizes, with many that are equal.
var amounts = rapid.OneOf(
	rapid.Map(rapid.IntRange(0, 20), func(i int) float64 { return float64(i) }),
	rapid.Float64Range(0, 1000),
	rapid.Float64Range(0, 1e-9),
	rapid.SampledFrom([]float64{0, 1e-300, 1e15, 1e300, math.MaxFloat64, math.SmallestNonzeroFloat64}),
)

var anyBand = rapid.Custom(func(t *rapid.T) Band {
	return Band{
		Priority: rapid.SampledFrom([]int64{0, 0, 0, 1, -1, math.MaxInt64, math.MinInt64}).Draw(t, "priority"),
		Clients:  rapid.OneOf(rapid.Int64Range(1, 10), rapid.SampledFrom([]int64{0, -1, 1 << 40, math.MaxInt64})).Draw(t, "clients"),
		Wants:    amounts.Draw(t, "wants"),
	}
})

// plainBand is what hosts want all the time.
var plainBand = rapid.Custom(func(t *rapid.T) Band {
	return Band{Clients: rapid.Int64Range(1, 3).Draw(t, "clients"), Wants: rapid.Float64Range(0, 20).Draw(t, "wants")}
})

// tiny is as good as nothing: what divides it among many loses it.
const tiny = 1e-300

// most is a, and as much as rounding may add to it.
func most(a float64) float64 { return a + 1e-9*a + tiny }

func TestSplitsAreSane(t *testing.T) {
	for _, w := range ways {
		rapid.Check(t, func(t *rapid.T) {
			capacity := amounts.Draw(t, "capacity")
			claims := rapid.SliceOfN(anyBand, 0, 30).Draw(t, "claims")
			parts := w.Split(capacity, claims)
			sum, all := 0.0, 0.0
			for i, p := range parts {
				b := clean(claims[i])
				if !(p >= 0 && p <= b.Wants) {
					t.Fatalf("%v: of %v, %+v gets %v", w, capacity, b, p)
				}
				sum += p
				all += b.Wants
			}
			capacity = min(capacity, maxAmount)
			if bounded(w.Form) {
				if sum > most(capacity) {
					t.Fatalf("%v: %v of %v is handed out to %+v: %v", w, sum, capacity, claims, parts)
				}
				if want := min(capacity, all); sum < want-1e-9*want-tiny {
					t.Fatalf("%v: %v of %v is handed out, %v is wanted: %v", w, sum, capacity, all, parts)
				}
			}
		})
	}
}

func TestMoreCapacityIsLessForNobody(t *testing.T) {
	for _, w := range ways {
		rapid.Check(t, func(t *rapid.T) {
			claims := rapid.SliceOfN(anyBand, 1, 20).Draw(t, "claims")
			less, more := amounts.Draw(t, "capacity"), amounts.Draw(t, "another")
			less, more = min(less, more), max(less, more)
			small, large := w.Split(less, claims), w.Split(more, claims)
			for i := range claims {
				if small[i] > most(large[i]) {
					t.Fatalf("%v: %+v gets %v of %v, but %v of %v", w, claims[i], small[i], less, large[i], more)
				}
			}
		})
	}
}

func TestSplitsDoNotDependOnTheOrder(t *testing.T) {
	for _, w := range ways {
		rapid.Check(t, func(t *rapid.T) {
			capacity := amounts.Draw(t, "capacity")
			order := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "order")
			claims := rapid.SliceOfN(anyBand, len(order), len(order)).Draw(t, "claims")
			moved := make([]Band, len(order))
			for i, at := range order {
				moved[at] = claims[i]
			}
			parts, movedParts := w.Split(capacity, claims), w.Split(capacity, moved)
			for i, at := range order {
				if parts[i] != movedParts[at] {
					t.Fatalf("%v: %+v gets %v, in another order %v", w, claims[i], parts[i], movedParts[at])
				}
			}
		})
	}
}

func TestMaxMinTakesFromNobodyWhoHasLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := amounts.Draw(t, "capacity")
		claims := rapid.SliceOfN(anyBand, 1, 20).Draw(t, "claims")
		parts := fair.Split(capacity, claims)
		for i, b := range claims {
			b = clean(b)
			if parts[i] >= b.Wants*(1-1e-9) {
				continue
			}
			for j, other := range claims { // b is not served: no host has more per client
				if has := parts[j] / float64(clean(other).Clients); has > most(parts[i]/float64(b.Clients)) {
					t.Fatalf("%+v gets %v, but %+v gets %v", b, parts[i], other, parts[j])
				}
			}
		}
	})
}
