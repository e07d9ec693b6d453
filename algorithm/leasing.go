// SPDX-License-Identifier: Apache-2.0

package algorithm

// Leasing is an Algorithm whose keys are Leases: hosts claim an amount and hold
// what they get of it for a time. Share is then what it does with demands
// alone.
//
// None, Static, ProportionalShare and FairShare are the ways to lease. One of
// another name embeds the way that it is like.
type Leasing interface {
	Algorithm

	// NewLeases returns the account of a capacity that nobody has claimed
	// yet.
	NewLeases() *Leases
}

// way is how a Leasing algorithm divides what a band has. The account asks for
// one host at a time, in O(log hosts); every way can also split a whole slice
// at once, which is what it means and what tests hold the account to.
type way interface {
	// Split divides capacity among claims, whose priorities do not matter.
	Split(capacity float64, claims []Band) []float64

	// part is what own, which is in t, gets of capacity.
	part(capacity float64, t tree, own Band) float64

	// bounded says that a part is of what nobody else holds. If not, claimants
	// get their parts whatever others have.
	bounded() bool
}

// share is Share for a way of leasing: what demands alone say.
func share(w way, limit Limit, demands []Rates, grants []Grant) {
	claims := make([]Band, len(demands))
	for i, d := range demands {
		claims[i] = Band{Clients: 1, Wants: d.Total()}
	}
	for i, part := range w.Split(limit.Rate, claims) {
		weight := ratio(part, limit.Rate)
		grants[i] = Grant{Weight: weight, Burst: weight * limit.Burst}
	}
}
