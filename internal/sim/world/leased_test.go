// SPDX-License-Identifier: Apache-2.0

package world

import "testing"

// Hosts want a fifth of the limit. Each leases little more than it uses, and its events fit into its part
// of the burst all the same.
func TestEventsFitIntoALeasedPart(t *testing.T) {
	sc := parse(t, `
name: leased
duration: 80s
warmup: 20s
hosts: 7
limits: [{key: k, limit: 100/s, burst: 40, algorithm: fair-share}]
traffic: [{key: k, total: 10/s, spread: random, cost: 1..3}]
`)
	for _, algorithm := range []string{"fair-share", "proportional-share", "static", "none"} {
		if k := run(t, sc, algorithm, 3).Whole(); k.FalseRejectPct > 30 || k.OverPct > 0 {
			t.Errorf("%s: %.1f%% of the events are refused wrongly, want 30%% at most; %.1f%% are over", algorithm, k.FalseRejectPct, k.OverPct)
		}
	}
}
