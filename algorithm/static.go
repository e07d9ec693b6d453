// SPDX-License-Identifier: Apache-2.0

package algorithm

// Static leases each claimant what it wants, up to the capacity, whatever
// others have: the capacity is not divided, but the same for each. A claimant
// that speaks for many clients counts as one, because it passes the capacity
// on to each of them in turn. Source: Doorman.
type Static struct{}

var _ Leasing = Static{}

// Split returns a part for each of claims, in [0, min(capacity, Wants)].
// Their sum may exceed capacity. Priorities do not matter.
func (Static) Split(capacity float64, claims []Band) []float64 {
	parts := make([]float64, len(claims))
	for i, b := range claims {
		parts[i] = within(capacity, b.clean().Wants)
	}
	return parts
}

// Share implements Algorithm.
func (s Static) Share(limit Limit, demands []Rates, grants []Grant) {
	share(s, limit, demands, grants)
}

// NewLeases implements Leasing.
func (s Static) NewLeases() *Leases { return newLeases(s) }

func (Static) part(capacity float64, _ tree, own Band) float64 { return min(capacity, own.Wants) }

func (Static) bounded() bool { return false }
