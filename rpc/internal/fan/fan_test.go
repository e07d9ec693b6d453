// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"runtime"
	"testing"
)

// A call runs other people's code. If that ends its goroutine, the other calls are made and
// answered, and Each returns.
func TestACallThatEndsItsGoroutineIsAnError(t *testing.T) {
	for _, n := range []int{6, 3 * maxCalls} {
		answers, errs := 0, 0
		Each(n, func(i int) (int, error) {
			if i%3 == 0 {
				runtime.Goexit()
			}
			return i, nil
		}, func(i, answer int, err error) {
			switch {
			case err == nil && answer == i:
				answers++
			case err != nil && i%3 == 0:
				errs++
			}
		})
		if answers != n*2/3 || errs != n/3 {
			t.Errorf("%d calls: %d answers and %d errors", n, answers, errs)
		}
	}
}
