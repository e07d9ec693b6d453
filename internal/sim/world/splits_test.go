// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

// What both sides of a split admit is the limit, and the part of it that the rule's fallback gives
// the hosts of the smaller side, from soon after they have noticed.
func TestASplitAdmitsTheLimitAndTheFallbackOfTheSmallerSide(t *testing.T) {
	const limit, begins, ends = 200, 20, 60
	seeds := 2
	if testrun.Long() {
		seeds = 40
	}
	for _, algorithm := range []string{"auto", "elastic", "exact", "request-weighted"} {
		for _, fallback := range []string{"even", "closed", "open"} {
			t.Run(algorithm+"/"+fallback, func(t *testing.T) {
				t.Parallel()
				seeds := seeds
				if algorithm == "exact" { // each event is a call
					seeds = max(1, seeds/5)
				}
				for seed := range uint64(seeds) {
					random := rand.New(rand.NewPCG(seed, 17))
					hosts := 3 + random.IntN(9)
					cut := 1 + random.IntN((hosts-1)/2)
					wanted := []int{limit + random.IntN(2*limit), limit + random.IntN(2*limit)}
					sc := parse(t, fmt.Sprintf(`
name: split
duration: 90s
hosts: %d
membership: {splits: 2s}
limits: [{key: k, limit: %d/s, burst: 20, fallback: %s}]
traffic:
  - {key: k, hosts: 0-%d, total: %d/s}
  - {key: k, hosts: %d-%d, total: %d/s}
events: [{at: %ds, do: partition, hosts: 0-%d, for: %ds}]
`, hosts, limit, fallback, cut-1, wanted[0], cut, hosts-1, wanted[1], begins, cut-1, ends-begins))
					side := map[string]float64{"even": float64(cut) / float64(hosts), "closed": 0, "open": 1}[fallback]
					r := run(t, sc, algorithm, seed)
					got, most := between(r.Keys[0], begins+20, ends)/limit, 1+side
					if got > most+0.05 || got < 0.85*most {
						t.Errorf("seed %d, %d of %d hosts are cut off, and want %v: %.3f of the limit, want %.3f", seed, cut, hosts, wanted, got, most)
					}
					if got := between(r.Keys[0], ends+15, 90) / limit; got > 1.05 || got < 0.9 {
						t.Errorf("seed %d, %d of %d hosts were cut off: healed, %.3f of the limit", seed, cut, hosts, got)
					}
				}
			})
		}
	}
}
