// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/bubble"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/usage"
)

// A batch of 1,000 keys at other owners takes a few calls and round trips, and decides
// what one ask after the other does.
func TestABatchIsAFewCalls(t *testing.T) {
	for _, algorithm := range []string{"exact", "auto"} {
		synctest.Test(t, func(t *testing.T) {
			nodes, wire := bubble.Start(t, 3, "limits: [{key: 'k*', limit: 1/s, burst: 3, fallback: closed, ask_timeout: 1s, algorithm: "+algorithm+"}]")
			const keys = 1000
			ask := func(i int) edge.Ask { return edge.Ask{Key: fmt.Sprint("k", i/2), Cost: int64(1 + i%3)} } // two for each key
			asks := make([]edge.Ask, 2*keys)
			for i := range asks {
				asks[i] = ask(i)
			}
			began := time.Now()
			got := engine.New(nodes[0].Group(), nil).DecideAll(t.Context(), asks)
			took, calls := time.Since(began), wire.Calls(usage.TakesTypeURL)
			t.Logf("%s: %d calls, %v", algorithm, calls, took)
			if calls > 40 || took > 30*time.Millisecond {
				t.Errorf("%s: %d asks are %d calls, and take %v", algorithm, len(asks), calls, took)
			}
			for i, d := range got {
				first := int64(1 + (i/2*2)%3)
				if want := i%2 == 0 || first+asks[i].Cost <= 3; d.OK != want || d.Policy.Burst != 3 {
					t.Errorf("%s: ask %d, %+v: %+v", algorithm, i, asks[i], d)
				}
			}
		})
	}
}
