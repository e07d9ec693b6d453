// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// An owner refuses batches that come after those that it was told are settled,
// so their numbers go up also when a Taker has forgotten the owner meanwhile.
func TestBatchesAreInOrderAlsoForOwnersThatWereForgotten(t *testing.T) {
	const many = 1500 // more than are kept
	network, placement, tills := rpctest.New(1), make(owners), make([]*till, many)
	for i := range tills {
		name := fmt.Sprint("owner", i)
		tills[i] = &till{number: 1, begin: 100}
		network.Host(name).Serve(tills[i])
		placement[name] = name
	}
	taker := &ask.Taker{Host: "me", Placement: placement, Peers: network.Host("me").Peers(), Self: "me", Timeout: time.Minute}
	defer taker.Close()
	for range 3 {
		for i := range tills {
			if _, err := taker.Take(t.Context(), usage.Take{Key: fmt.Sprint("owner", i), Tokens: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, till := range tills {
		settled := uint64(0)
		for _, call := range till.calls() {
			if call.Batch < settled || call.Settled < settled {
				t.Fatalf("owner %d hears of batch %d, which settles %d, after %d were settled", i, call.Batch, call.Settled, settled)
			}
			settled = call.Settled + 1
		}
	}
}
