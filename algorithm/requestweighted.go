// SPDX-License-Identifier: Apache-2.0

package algorithm

// RequestWeighted gives each host the part of the limit that its requests,
// allowed and rejected, are of all hosts' requests. A host with little weight
// may also use what the cluster leaves unused, up to the even share.
// Source: the load-aware limiter of Cadence.
type RequestWeighted struct{}

var (
	_ Summed  = RequestWeighted{}
	_ Floored = RequestWeighted{}
)

// Share implements Algorithm.
func (w RequestWeighted) Share(limit Limit, demands []Rates, grants []Grant) {
	var sum Rates
	for _, d := range demands {
		sum = sum.Plus(d)
	}
	for i, d := range demands {
		grants[i] = w.Grant(limit, sum, d)
	}
}

// Grant implements Summed.
func (RequestWeighted) Grant(limit Limit, sum, own Rates) Grant {
	weight := 0.0
	if all := sum.Total(); all > 0 {
		weight = lower(own.Total()/all, 1)
	}
	return Grant{Weight: weight, Burst: weight * limit.Burst, Used: sum.Allowed}
}

// Floor implements Floored.
func (RequestWeighted) Floor() Floor { return FloorUnused }

// Plus adds demands.
func (d Rates) Plus(e Rates) Rates {
	return Rates{d.Allowed + e.Allowed, d.Rejected + e.Rejected}
}

// Times scales a demand.
func (d Rates) Times(f float64) Rates { return Rates{d.Allowed * f, d.Rejected * f} }
