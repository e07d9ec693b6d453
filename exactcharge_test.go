// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"math"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/internal/bubble"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge"
)

// The answer to a charge says what the charge left, although the host does not wait
// for the key's owner. A debt has a bound: here a burst and an event of the largest cost.
func TestTheAnswerToAChargeSaysWhatIsLeft(t *testing.T) {
	for _, algorithm := range []string{"exact", "auto", "elastic", "even"} {
		for _, warm := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { // no report is due between an ask and its charge: what a host has been lent is less
				nodes, _ := bubble.Start(t, 1, "limits: [{key: '*', limit: 0.001/s, burst: 100, algorithm: "+algorithm+"}]")
				b := engine.New(nodes[0].Group(), nil)
				for key, row := range map[string]struct {
					charge int64
					left   float64
				}{"small": {7, 93}, "debt": {105, -5}, "huge": {1000, -200}, "beyond": {math.MaxInt64, -200}} {
					if warm {
						b.Decide(t.Context(), edge.Ask{Key: key, Cost: 1})
						row.left = max(row.left-1, -200)
					}
					if d := b.Decide(t.Context(), edge.Ask{Kind: edge.Charge, Key: key, Cost: row.charge}); !d.OK || math.Abs(d.Left-row.left) > 0.1 {
						t.Errorf("%s, used before: %v: a charge of %d leaves %v, want %v", algorithm, warm, row.charge, d.Left, row.left)
					}
				}
			})
		}
	}
}
