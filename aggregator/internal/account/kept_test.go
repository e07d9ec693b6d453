// SPDX-License-Identifier: Apache-2.0

package account

import (
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// A weigher that ends the goroutine of a report does not end that of each other report.
func TestAWeigherThatEndsItsGoroutineIsNotCalledAtOnce(t *testing.T) {
	calls := 0
	k := NewKept(algorithm.Weigher{Weigh: func(float64, []algorithm.Demand, []float64) {
		calls++
		runtime.Goexit()
	}}, &Settings{Interval: time.Second})
	report := func(now time.Duration) (panicked any) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { panicked = recover() }()
			if k.Stale(now, 1, 1) {
				k.Add(1, algorithm.Demand{Wants: 1})
				k.Divide(now, 10)
			}
		}()
		<-done
		return panicked
	}
	report(0)
	if why := report(time.Millisecond); why == nil || calls != 1 {
		t.Errorf("the weigher is called %d times, and the next report panics with %v", calls, why)
	}
	if report(time.Second); calls != 2 {
		t.Errorf("the weigher is called %d times in two parts of the interval", calls)
	}
}
