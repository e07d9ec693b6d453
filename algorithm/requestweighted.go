// SPDX-License-Identifier: Apache-2.0

package algorithm

// RequestWeighted gives each host the part of the capacity that what it wants is of
// what all want. Source: the load-aware limiter of Cadence.
func RequestWeighted(capacity float64, demands []Demand, parts []float64) {
	all := 0.0
	for i := range demands {
		all += demands[i].Wants
	}
	for i := range demands {
		parts[i] = capacity * (demands[i].Wants / all)
	}
}

// None gives everyone what they want, even beyond the capacity. It is for
// capacities that are only to be watched. Source: Doorman.
func None(_ float64, demands []Demand, parts []float64) {
	for i := range demands {
		parts[i] = demands[i].Wants
	}
}

// Static gives each host what it wants, up to the capacity, whatever others have:
// the capacity is not divided, but the same for each. A host that speaks for many
// clients counts as one, because it passes the capacity on to each of them in
// turn. Source: Doorman.
func Static(capacity float64, demands []Demand, parts []float64) {
	for i := range demands {
		parts[i] = min(capacity, demands[i].Wants)
	}
}
