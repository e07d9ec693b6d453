// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestInstantsSaturate(t *testing.T) {
	const first, last = Instant(math.MinInt64), Instant(math.MaxInt64)
	for i, tt := range []struct{ got, want Instant }{
		{first.Add(-1), first},
		{first.Add(math.MinInt64), first},
		{(first + 5).Add(-10), first},
		{last.Add(1), last},
		{last.Add(math.MaxInt64), last},
		{Instant(5).Add(math.MaxInt64), last},
		{Instant(5).Add(-10), -5},
		{first.Add(1), first + 1},
		{last.Add(-1), last - 1},
	} {
		if tt.got != tt.want {
			t.Errorf("%d: %d, want %d", i, tt.got, tt.want)
		}
	}
	if last.Sub(first) != math.MaxInt64 || first.Sub(last) != math.MinInt64 || Instant(7).Sub(10) != -3*time.Nanosecond {
		t.Error("Sub does not saturate")
	}
}

// The zero Instant stands for a time that is long past, such as the end of a
// lease that was never granted.
func TestTheZeroInstantIsPast(t *testing.T) {
	if Now() <= 0 {
		t.Errorf("now is %d", Now())
	}
	synctest.Test(t, func(t *testing.T) {
		if Now() <= 0 {
			t.Errorf("in a bubble, now is %d", Now())
		}
	})
}
