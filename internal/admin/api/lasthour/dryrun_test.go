// SPDX-License-Identifier: Apache-2.0

package lasthour

import "testing"

func TestSuggestionsAreRoundedUp(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 0.3: 1, 1: 1, 99.5: 100, 101: 110, 1234: 1300, 1e6: 1e6} {
		if got := round(v); got != want {
			t.Errorf("round(%v) = %v, want %v", v, got, want)
		}
	}
}
