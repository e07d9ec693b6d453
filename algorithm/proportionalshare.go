// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"cmp"
	"slices"
)

// ProportionalShare leases everyone what they want while there is enough. Else
// each gets what it wants up to the even share of its clients, and what those
// who want less leave of theirs goes to those who want more, in proportion to
// how much more they want. Source: Doorman.
type ProportionalShare struct{}

var _ Leasing = ProportionalShare{}

// Split returns a part for each of claims, in [0, Wants]. They sum to the
// capacity, or to all that is wanted if that is less. Priorities do not
// matter, nor does the order of claims.
func (ProportionalShare) Split(capacity float64, claims []Band) []float64 {
	capacity = within(capacity, maxAmount)
	sorted := make([]Band, len(claims))
	for i, b := range claims {
		sorted[i] = b.clean()
	}
	// Rounding is not to depend on how claims came.
	slices.SortFunc(sorted, func(a, b Band) int {
		return cmp.Or(cmp.Compare(a.thirst(), b.thirst()), cmp.Compare(a.Clients, b.Clients))
	})
	var wants, clients float64
	for _, b := range sorted {
		wants += b.Wants
		clients += float64(b.Clients)
	}
	var left, more float64 // of even shares, and beyond them
	for _, b := range sorted {
		even := capacity / clients * float64(b.Clients)
		left += max(even-b.Wants, 0)
		more += max(b.Wants-even, 0)
	}
	parts := make([]float64, len(claims))
	for i, b := range claims {
		b = b.clean()
		even := capacity / clients * float64(b.Clients)
		if parts[i] = b.Wants; wants > capacity && b.Wants > even {
			parts[i] = min(even+(b.Wants-even)/more*left, b.Wants)
		}
	}
	return parts
}

// Share implements Algorithm.
func (p ProportionalShare) Share(limit Limit, demands []Rates, grants []Grant) {
	share(p, limit, demands, grants)
}

// NewLeases implements Leasing.
func (p ProportionalShare) NewLeases() *Leases { return newLeases(p) }

func (ProportionalShare) part(capacity float64, t tree, own Band) float64 {
	all := t.all()
	if all.wants <= capacity {
		return own.Wants
	}
	level := capacity / all.clients
	even := level * float64(own.Clients)
	if own.Wants <= even {
		return own.Wants
	}
	below, above := t.cut(level)
	left := max(level*below.clients-below.wants, 0)
	more := max(above.wants-level*above.clients, own.Wants-even)
	return min(even+(own.Wants-even)/more*left, own.Wants)
}

func (ProportionalShare) bounded() bool { return true }
