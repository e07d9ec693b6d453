// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// A take returns within twice its timeout however many wait before it.
func TestATakeInADeepQueueReturnsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, taker, _ := tills(t, 1e9, 18*time.Millisecond) // a call takes almost the whole timeout
		var all sync.WaitGroup
		var longest, answered atomic.Int64
		for i := range 9000 {
			all.Go(func() {
				time.Sleep(min(time.Duration(i)*200*time.Microsecond, time.Millisecond))
				began := time.Now()
				if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); err == nil {
					answered.Add(1)
				}
				for took := int64(time.Since(began)); ; {
					if before := longest.Load(); before >= took || longest.CompareAndSwap(before, took) {
						return
					}
				}
			})
		}
		all.Wait()
		if got := time.Duration(longest.Load()); got > 2*ask.DefaultTimeout {
			t.Errorf("a take took %v, and twice the timeout is %v", got, 2*ask.DefaultTimeout)
		}
		if answered.Load() < 4000 {
			t.Errorf("only %d of 9000 are answered", answered.Load())
		}
	})
}
