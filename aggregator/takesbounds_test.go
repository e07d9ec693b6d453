// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/rpc"
)

// Callers that settle nothing and send as much as fits cost a bounded amount of
// memory, whoever they say that they are.
func TestWhatIsRememberedOfLargeBatchesIsBounded(t *testing.T) {
	a := bucketed(t, 1e-4, 3e4)
	rows := []rpc.Take{{Key: "k", Tokens: 1}}
	for i := range 1024 {
		rows = append(rows, rpc.Take{Key: fmt.Sprint("other:", i, strings.Repeat("x", 1000)), Tokens: 1})
	}
	send := func(caller, batch, settled uint64) {
		once(t, a, &rpc.Takes{Caller: caller, Batch: batch, Settled: settled, Rows: rows})
	}
	remembered := func() (bytes int64) {
		for _, c := range a.callers.all {
			for _, b := range c.batches {
				for i := range b.takes.Rows {
					bytes += int64(len(b.takes.Rows[i].Key))
				}
			}
		}
		return bytes
	}
	for caller := range uint64(4) {
		for batch := range uint64(40) {
			send(caller+1, batch, 0)
		}
	}
	if got := remembered(); got > maxRemembered || got < maxRemembered/2 {
		t.Errorf("%d bytes of keys are remembered of %d", got, maxRemembered)
	}
	// What is settled, withdrawn or gone makes room again.
	for caller := range uint64(4) {
		send(caller+1, 100, 100)
	}
	if got, counted := remembered(), a.callers.remembered.Load(); got > 5<<20 || counted < got || counted > 2*got {
		t.Errorf("%d bytes of keys, %d counted, after all was settled", got, counted)
	}
	a.GC(Now() + 2*callerGone)
	if got := a.callers.remembered.Load(); got != 0 || len(a.callers.all) != 0 {
		t.Errorf("%d bytes counted of no caller", got)
	}
}
