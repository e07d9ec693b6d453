// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestExactSumsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e exact
		sum := new(big.Float).SetPrec(500)
		var in []float64
		t.Repeat(map[string]func(*rapid.T){
			"plus": func(t *rapid.T) {
				x := amounts.Draw(t, "x")
				in = append(in, x)
				e = e.plus(x)
			},
			"minus": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip("nothing to take away")
				}
				i := rapid.IntRange(0, len(in)-1).Draw(t, "which")
				e = e.minus(in[i])
				in = append(in[:i], in[i+1:]...)
			},
			"": func(t *rapid.T) {
				sum.SetInt64(0)
				for _, x := range in {
					sum.Add(sum, big.NewFloat(math.Min(x, maxAmount)))
				}
				want, _ := sum.Float64()
				// Each is rounded up to a unit.
				if got := e.value(); got < want*(1-1e-15) || got > want*(1+1e-15)+float64(len(in))/units {
					t.Fatalf("sum of %v is %v, want %v", in, got, want)
				}
				if len(in) == 0 && e != (exact{}) {
					t.Fatalf("nothing is left, and it is %v", e)
				}
			},
		})
	})
	for _, x := range []float64{math.NaN(), -1, math.Inf(-1), 0} {
		if e := exactly(x); e != (exact{}) {
			t.Errorf("%v counts as %v", x, e)
		}
	}
	if got := exactly(math.Inf(1)).value(); got != maxAmount {
		t.Errorf("infinity counts as %v", got)
	}
	// The largest part below a high word.
	for _, x := range []float64{math.Nextafter(perLow, 0), math.Nextafter(1, 0), math.Nextafter(maxAmount, 0)} {
		if got := exactly(x).value(); math.Abs(got-x) > 1e-15*x {
			t.Errorf("%v counts as %v", x, got)
		}
	}
}
