// SPDX-License-Identifier: Apache-2.0

package algorithm

// DropRatio has every host let the same part of its events through, by chance:
// limit ÷ demand. A host's weight is that part, and hosts have no buckets.
// Source: what Uber tells of its global rate limiter, 2026.
type DropRatio struct{}

var (
	_ Summed  = DropRatio{}
	_ Floored = DropRatio{}
)

// Share implements Algorithm.
func (d DropRatio) Share(limit Limit, demands []Rates, grants []Grant) {
	var sum Rates
	for _, demand := range demands {
		sum = sum.Plus(demand)
	}
	for i := range grants {
		grants[i] = d.Grant(limit, sum, demands[i])
	}
}

// Grant implements Summed.
func (DropRatio) Grant(limit Limit, sum, _ Rates) Grant {
	pass := 1.0
	if all := sum.Total(); all > limit.Rate {
		pass = limit.Rate / all
	}
	return Grant{Weight: pass, Burst: limit.Burst, Used: sum.Allowed}
}

// Floor implements Floored.
func (DropRatio) Floor() Floor { return FloorDrop }
