// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/rpc/usage"
)

// Answers are lost for long, and then the asker has no more to ask for. It withdraws its
// last batch while the owner still knows it.
func TestTheLastTakeOfALongOutageIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, network := tills(t, 1e6, time.Millisecond)
		defer taker.Close()
		network.Cut("o", "me")
		for range 600 {
			time.Sleep(time.Second)
			if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); err == nil {
				t.Fatal("the answer is not lost")
			}
		}
		network.Heal("o", "me")
		var last uint64
		for _, call := range o.calls() {
			if len(call.Rows) > 0 {
				last = call.Batch
			}
		}
		time.Sleep(time.Minute)
		calls := o.calls()
		if !slices.Contains(calls[len(calls)-1].Withdrawn, last) {
			t.Errorf("batch %d is not withdrawn within a minute, after %d calls", last, len(calls))
		}
	})
}
