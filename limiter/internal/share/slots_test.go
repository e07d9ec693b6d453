// SPDX-License-Identifier: Apache-2.0

package share

import (
	"math"
	"testing"
)

func TestAGrantIsAWholeNumberOfSlots(t *testing.T) {
	for limit := 1; limit <= 3000; limit += 1 + limit/50 {
		for n := 0; n <= limit; n += 1 + limit/40 {
			weight := float64(n) / float64(limit)
			wire := float64(math.Nextafter32(float32(weight), 0)) // the worst that rounding does
			for _, w := range []float64{weight, wire} {
				if got := wholeSlots(w * float64(limit)); got != int64(n) {
					t.Fatalf("%d of %d with weight %v: %d", n, limit, w, got)
				}
			}
			if less := (float64(n) - 0.01) / float64(limit); n > 0 && wholeSlots(less*float64(limit)) != int64(n)-1 {
				t.Fatalf("%v of %d is rounded up", less, limit)
			}
		}
	}
	for n := int64(1); n < 1<<50; n *= 7 {
		if got := wholeSlots(float64(n)); got != n {
			t.Errorf("the whole limit of %d: %d", n, got)
		}
	}
	for _, x := range []float64{math.NaN(), -1, math.Inf(-1)} {
		if got := wholeSlots(x); got != 0 {
			t.Errorf("%v: %d", x, got)
		}
	}
	if got := wholeSlots(inf); got != 1<<53 {
		t.Error(got)
	}
}
