// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// Many takes with a long and a short timeout go to one owner that is slower
// than the short one. Each fails or succeeds by its own timeout, and waits for
// at most twice that.
func TestTakesWaitForAsLongAsTheirOwnTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, taker, network := tills(t, 1e6, 0)
		network.SetFaults("me", "o", rpctest.Faults{Delay: 50 * time.Millisecond})
		taker.Timeout = 10 * time.Millisecond
		var wg sync.WaitGroup
		for i := range 40 {
			timeout := []time.Duration{10 * time.Millisecond, 200 * time.Millisecond}[i%2]
			given := timeout
			if i%4 == 0 {
				given = 0 // the Taker's
			}
			wg.Go(func() {
				for range 20 {
					began := time.Now()
					took, err := taker.TakeWithin(t.Context(), usage.Take{Key: "k", Tokens: 1}, given)
					if answered := err == nil && took.OK; answered != (timeout > 50*time.Millisecond) {
						t.Errorf("a timeout of %v: %+v, %v", timeout, took, err)
					}
					if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ask.ErrSilent) {
						t.Error(err)
					}
					if waited := time.Since(began); waited > 2*timeout {
						t.Errorf("a timeout of %v: waited for %v", timeout, waited)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
	})
}

// The owner knows the batches of a Taker by their numbers, which count for each
// timeout: nothing may look like a batch that came before, or that is settled.
func TestBatchesOfDifferentTimeoutsAreOfDifferentCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, _ := tills(t, 1e6, time.Millisecond)
		timeouts := []time.Duration{0, 30 * time.Millisecond, time.Second, 0, 30 * time.Millisecond, ask.DefaultTimeout}
		for _, timeout := range timeouts {
			if _, err := taker.TakeWithin(t.Context(), usage.Take{Key: "k", Tokens: 1}, timeout); err != nil {
				t.Fatal(err)
			}
		}
		batches := make(map[uint64]uint64) // the last one of a caller
		for _, call := range o.calls() {
			if call.Caller == 0 || call.Batch != batches[call.Caller]+1 {
				t.Errorf("caller %d sends batch %d after %d", call.Caller, call.Batch, batches[call.Caller])
			}
			batches[call.Caller] = call.Batch
		}
		if len(batches) != 3 {
			t.Errorf("%d callers, want one for each of 3 timeouts", len(batches))
		}
	})
}

// An edge waits for the owner of each key as long as the key's rule says.
func TestAnEdgeWaitsForAsLongAsTheRuleOfEachKeySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, _, _, _, network := edgeOf(t, 5)
		network.SetFaults("me", "o", rpctest.Faults{Delay: 50 * time.Millisecond})
		edge.Timeout = func(key string) time.Duration {
			if key == "k" {
				return 200 * time.Millisecond
			}
			return 0 // the Taker's
		}
		taken := takeAt(t, edge, &usage.Takes{Rows: []usage.Take{{Key: "k", Tokens: 1}, {Key: "j", Tokens: 1}, {Key: "p", Tokens: 1}}})
		for i, want := range []bool{true, false, true} {
			if taken.Rows[i].OK != want {
				t.Errorf("row %d: %+v", i, taken.Rows[i])
			}
		}
	})
}
