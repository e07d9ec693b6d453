// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"runtime"
	"testing"
)

// A call runs other people's code. If that ends its goroutine, the other calls are made and
// answered, and Each returns.
func TestACallThatEndsItsGoroutineIsAnError(t *testing.T) {
	for _, calls := range []int{1, 2, 9} {
		answers, errs := 0, 0
		Each(6, calls, func(i int) (int, error) {
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
		if answers != 4 || errs != 2 {
			t.Errorf("%d calls at a time: %d answers and %d errors", calls, answers, errs)
		}
	}
}
