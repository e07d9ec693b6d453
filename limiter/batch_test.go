// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// The demand of many keys is looked at under one lock, some at a time. What is
// told about a key does not depend on where among them it stands.
func TestEveryKeyIsAskedOnceWhatItWants(t *testing.T) {
	const keys = 3*together + 1
	g := eagerGroup(t, dynamicconfig.Rule{Key: "*", Limit: 1e6}, 1)
	var now Instant
	for round := range 4 {
		now += 3 * second
		for i := range keys {
			take(g.For(fmt.Sprint(i)), now-second, 100+5*round)
		}
		for _, k := range g.live { // as if ticks had seen it come evenly
			k.core.shares[0].pulse.demand.fast = float64(100+5*round) / 3
		}
		batches := g.Report(now)
		if len(batches) != 1 || batches[0].Usage.Len() != keys {
			t.Fatalf("round %d: %d batches", round, len(batches))
		}
		b, answer := batches[0], rpc.Grants{}
		for i, wants := range b.Usage.Wants {
			if first := b.Usage.Wants[0]; wants != first || !(wants > 0) {
				t.Fatalf("round %d: key %d wants %v, and the first, which did the same, %v", round, i, wants, first)
			}
			answer.Weight, answer.Burst = append(answer.Weight, 0.5), append(answer.Burst, 1e6)
			answer.Used, answer.Tokens = append(answer.Used, 0), append(answer.Tokens, 1e5)
			answer.Lease = append(answer.Lease, time.Minute)
		}
		if err := g.Apply(now, b, nil, &answer); err != nil {
			t.Fatal(err)
		}
	}
}
