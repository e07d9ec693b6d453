// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"cmp"
	"slices"
)

// FairShare leases everyone what they want while there is enough. Else nobody
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
type FairShare struct{}

var _ Leasing = FairShare{}

// Split returns a part for each of claims, in [0, Wants]. They sum to the
// capacity, or to all that is wanted if that is less. Priorities do not
// matter, nor does the order of claims.
func (FairShare) Split(capacity float64, claims []Band) []float64 {
	parts, order := make([]float64, len(claims)), make([]int, len(claims))
	clients := 0.0
	for i, b := range claims {
		parts[i], order[i] = b.clean().Wants, i
		clients += float64(b.clean().Clients)
	}
	// Those of equal thirst are ordered too, so that rounding does not
	// depend on how claims came.
	slices.SortFunc(order, func(i, j int) int {
		a, b := claims[i].clean(), claims[j].clean()
		return cmp.Or(cmp.Compare(a.thirst(), b.thirst()), cmp.Compare(a.Clients, b.Clients))
	})
	left := within(capacity, maxAmount)
	for k, i := range order {
		level, b := left/clients, claims[i].clean()
		if b.thirst() > level { // and so are all that follow
			for _, i := range order[k:] {
				parts[i] = min(parts[i], level*float64(claims[i].clean().Clients))
			}
			break
		}
		left = max(left-b.Wants, 0)
		clients -= float64(b.Clients)
	}
	return parts
}

// Share implements Algorithm.
func (f FairShare) Share(limit Limit, demands []Rates, grants []Grant) {
	share(f, limit, demands, grants)
}

// NewLeases implements Leasing.
func (f FairShare) NewLeases() *Leases { return newLeases(f) }

func (FairShare) part(capacity float64, t tree, own Band) float64 {
	if t.all().wants <= capacity {
		return own.Wants
	}
	return min(own.Wants, t.level(capacity)*float64(own.Clients))
}

func (FairShare) bounded() bool { return true }
