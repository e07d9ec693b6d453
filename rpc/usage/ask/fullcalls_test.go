// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// More takes wait for a slow owner than fit in one call. None of them waits for company for
// longer than the window while the Taker may make another call.
func TestTakesBeyondAFullCallDoNotWaitForItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, _ := tills(t, 1e6, 9*time.Millisecond)
		var all sync.WaitGroup
		take := func() {
			all.Go(func() {
				if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); err != nil {
					t.Error(err)
				}
			})
		}
		take()
		synctest.Wait()
		for range 3000 { // three calls of up to 1024
			take()
		}
		time.Sleep(9*time.Millisecond + 2*ask.Window)
		synctest.Wait()
		if n := len(o.calls()); n != 4 {
			t.Errorf("%d calls were made for 3001 takes, want 4", n)
		}
		all.Wait()
	})
}
