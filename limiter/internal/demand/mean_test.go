// SPDX-License-Identifier: Apache-2.0

package demand

import "testing"

// Of little demand, a mean needs seconds; of much, one report says as much.
func TestAMeanIsQuickWhereThereIsMuch(t *testing.T) {
	for _, tt := range []struct{ rate, least, most float64 }{{20, 5, 7}, {100, 38, 40}, {5000, 4990, 5000}} {
		var m Mean
		if m.Add(tt.rate, 1); float64(m) < tt.least || float64(m) > tt.most {
			t.Errorf("after a second of %v/s: %v, want %v to %v", tt.rate, m, tt.least, tt.most)
		}
	}
	m := Mean(3)
	for i := 0; m > 0; i++ {
		if m.Add(0, 1); i == 60 {
			t.Fatalf("after a minute of silence: %v", m)
		}
	}
}
