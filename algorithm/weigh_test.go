// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"math/rand/v2"
	"testing"
)

// FairShare and ProportionalShare give each host the same to the last digit, in whatever order demands
// come. Some demands here want the same per client.
func TestPartsDoNotDependOnTheOrderOfDemands(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for name, weigh := range map[string]Weigh{"fair": FairShare, "proportional": ProportionalShare} {
		for range 1000 {
			demands := make([]Demand, 2+chance.IntN(9))
			for i := range demands {
				clients := float64(1 + chance.IntN(5))
				demands[i] = Demand{Wants: clients * (0.1 + 0.3*float64(chance.IntN(3))), Clients: clients}
			}
			capacity := chance.Float64() * float64(len(demands))
			parts, others := make([]float64, len(demands)), make([]float64, len(demands))
			weigh(capacity, demands, parts)
			order := chance.Perm(len(demands))
			shuffled := make([]Demand, len(demands))
			for to, from := range order {
				shuffled[to] = demands[from]
			}
			weigh(capacity, shuffled, others)
			for to, from := range order {
				if parts[from] != others[to] {
					t.Fatalf("%s: of %v, %+v gets %v or %v among %+v", name, capacity, demands[from], parts[from], others[to], demands)
				}
			}
		}
	}
}
