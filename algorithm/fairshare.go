// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"cmp"
	"slices"
)

// FairShare gives every host what it wants while there is enough. Else no host
// gets more per client than another that wants more than it gets: parts are
// max-min fair. It is as if water rose to the same level in all:
//
//	wants  ┌───┐
//	       │   │       ┌───┐
//	level ─│███│─┌───┐─│███│─   each gets min(wants, level·clients)
//	       │███│ │███│ │███│
//
// The level is exact. Source: Doorman's design document, which describes two
// rounds of it.
func FairShare(capacity float64, demands []Demand, parts []float64) {
	order := byThirst(demands)
	clients, left := 0.0, capacity
	for i := range demands {
		parts[i] = demands[i].Wants
		clients += demands[i].Clients
	}
	for k, i := range order {
		level, d := left/clients, &demands[i]
		if d.perClient() > level { // and so are all that follow
			for _, i := range order[k:] {
				parts[i] = min(parts[i], level*demands[i].Clients)
			}
			break
		}
		left = max(left-d.Wants, 0)
		clients -= d.Clients
	}
}

// ProportionalShare gives everyone what they want while there is enough. Else
// each gets what it wants up to the even share of its clients, and what those
// who want less leave of theirs goes to those who want more, in proportion to
// how much more they want. Source: Doorman.
func ProportionalShare(capacity float64, demands []Demand, parts []float64) {
	var wants, clients float64
	order := byThirst(demands)
	for _, i := range order {
		wants += demands[i].Wants
		clients += demands[i].Clients
	}
	var left, more float64 // of even shares, and beyond them
	for _, i := range order {
		even := capacity / clients * demands[i].Clients
		left += max(even-demands[i].Wants, 0)
		more += max(demands[i].Wants-even, 0)
	}
	for i := range demands {
		d := &demands[i]
		even := capacity / clients * d.Clients
		if parts[i] = d.Wants; wants > capacity && d.Wants > even {
			parts[i] = min(even+(d.Wants-even)/more*left, d.Wants)
		}
	}
}

// byThirst are the indices of demands in the order of what they want per client.
// Demands that want the same per client are ordered too, so that rounding does not depend on how
// demands came.
func byThirst(demands []Demand) []int {
	order := make([]int, len(demands))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &demands[i], &demands[j]
		return cmp.Or(cmp.Compare(a.perClient(), b.perClient()), cmp.Compare(a.Clients, b.Clients))
	})
	return order
}
