// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"testing"
	"time"
)

// Keys come into use one after another. From then on each is used once an interval, so that
// it keeps its grant.
func TestAKeyThatCameIntoUseStaysInUse(t *testing.T) {
	const (
		n, callers = 1000, 4
		every      = 3 * time.Second
		tick       = 100 * time.Millisecond
	)
	l := load{ramp: 7 * every, perSecond: n / every.Seconds(), callers: callers}
	last, uses := make([]time.Duration, n), make([]int, n)
	for c := range callers {
		caller := turns{load: l, n: n, caller: c}
		for passed := time.Duration(0); passed < 14*every; passed += tick {
			began := 0
			caller.due(passed, func(key int) {
				if key%callers != c {
					t.Fatalf("caller %d uses key %d", c, key)
				}
				if gap := passed - last[key]; uses[key] > 0 && (gap < every-2*tick || gap > every+2*tick) {
					t.Fatalf("key %d is used again after %v", key, gap)
				}
				if uses[key]++; uses[key] == 1 {
					began++
				}
				last[key] = passed
			})
			if most := int(n/callers*tick.Seconds()/l.ramp.Seconds()) + 1; began > most {
				t.Fatalf("%d keys of one caller come into use at once, more than %d", began, most)
			}
		}
	}
	for key, used := range uses {
		if used < 7 || 14*every-last[key] > every+2*tick {
			t.Errorf("key %d was used %d times, and last after %v", key, used, last[key])
		}
	}
}

func TestAHistogramIsExactToAnEighth(t *testing.T) {
	var h histogram
	for _, d := range []time.Duration{0, 1, 8, 9, 100, 1000, 12345, time.Second, 5 * time.Minute} {
		if got := most(step(d)); got < d || float64(got) > float64(max(d, 8))*9/8 {
			t.Errorf("%d is counted as at most %d", d, got)
		}
	}
	for i := range 100 {
		h.add(time.Duration(i) * time.Microsecond)
	}
	before := h.read()
	for range 99 {
		h.add(time.Millisecond)
	}
	h.add(time.Second)
	for q, want := range map[float64]time.Duration{0.5: time.Millisecond, 0.99: time.Millisecond, 1: time.Second} {
		if got := quantileOf(before, h.read(), q); got < want || got > want*9/8 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantileOf(h.read(), h.read(), 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
