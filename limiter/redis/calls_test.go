// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Of calls that end at the same time, some are answered and some are not. There are never more
// values than free has room for, so no call waits to end.
func TestCallsThatEndTogetherKeepTheBound(t *testing.T) {
	for range 60 {
		synctest.Test(t, func(t *testing.T) {
			c := newCalls(firstCalls)
			var callers sync.WaitGroup
			for i := range 16 {
				var err error
				if i%2 == 0 {
					err = failure{errors.New("no answer"), true}
				}
				callers.Go(func() {
					for range 5000 {
						if err := c.acquire(t.Context(), time.Minute); err != nil {
							t.Error(err)
							return
						}
						c.release(err)
					}
				})
			}
			callers.Wait()
			if bound := c.bound.Load(); bound != firstCalls || len(c.free) != firstCalls {
				t.Errorf("the bound is %d, and %d are free, of %d", bound, len(c.free), firstCalls)
			}
		})
	}
}
