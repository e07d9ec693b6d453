// SPDX-License-Identifier: Apache-2.0

package account

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// A weigher that panics is not called again for each other report.
func TestAWeigherThatPanicsIsNotCalledAtOnce(t *testing.T) {
	calls := 0
	k := NewKept(algorithm.Weigher{Weigh: func(float64, []algorithm.Demand, []float64) {
		calls++
		panic("a bug")
	}}, &Settings{Interval: time.Second})
	report := func(now time.Duration) (panicked any) {
		defer func() { panicked = recover() }()
		if k.Stale(now, 1, 1) {
			k.Add(1, algorithm.Demand{Wants: 1})
			k.Divide(now, 10)
		}
		return nil
	}
	report(0)
	if why := report(time.Millisecond); why == nil || calls != 1 {
		t.Errorf("the weigher is called %d times, and the next report panics with %v", calls, why)
	}
	if report(time.Second); calls != 2 {
		t.Errorf("the weigher is called %d times in two parts of the interval", calls)
	}
}
