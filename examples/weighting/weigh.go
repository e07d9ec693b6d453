// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/headgate/headgate/algorithm"

// halfToTheBiggest gives half of the limit to the host that wants most, and divides
// the rest among the others by what they want.
func halfToTheBiggest(capacity float64, demands []algorithm.Demand, parts []float64) {
	biggest, others := 0, 0.0
	for i, d := range demands {
		if d.Wants > demands[biggest].Wants || d.Wants == demands[biggest].Wants && d.Host < demands[biggest].Host {
			biggest = i
		}
	}
	for i, d := range demands {
		if i != biggest {
			others += d.Wants // a difference would lose small ones beside the biggest
		}
	}
	for i, d := range demands {
		if i == biggest {
			parts[i] = capacity / 2
		} else {
			parts[i] = capacity / 2 * d.Wants / others
		}
	}
}

// zoneADouble divides by what hosts want, and what hosts in zone a want counts
// twice. A host's zone comes from membership, so no host can choose it.
func zoneADouble(capacity float64, demands []algorithm.Demand, parts []float64) {
	all := 0.0
	for i, d := range demands {
		parts[i] = d.Wants
		if d.Labels.Get("zone") == "a" {
			parts[i] *= 2
		}
		all += parts[i]
	}
	for i := range parts {
		parts[i] *= capacity / all
	}
}
