// SPDX-License-Identifier: Apache-2.0

package demand

import "testing"

// A key that begins a burst is looked at more often, and never less often.
func TestABurstIsLookedAtSooner(t *testing.T) {
	for _, tt := range []struct {
		was   Class
		wants float64
		want  Class
	}{
		{None, 100, None},
		{Slow, 5, Slow},
		{Slow, 40, Quick},
		{Slow, 4000, Usual},
		{Usual, 40, Quick},
		{Usual, 4000, Usual},
		{Quick, 4000, Quick},
		{Quick, 5, Quick},
	} {
		var d Estimate
		if got := d.Sooner(tt.was, tt.wants); got != tt.want {
			t.Errorf("a key of class %d that wants %v/s: %d, want %d", tt.was, tt.wants, got, tt.want)
		}
	}
}
