// SPDX-License-Identifier: Apache-2.0

package algorithm

// None leases everyone what they want, even beyond the capacity. It is for
// capacities that are only to be watched. Source: Doorman.
type None struct{}

var _ Leasing = None{}

// Split returns what each of claims wants. Priorities do not matter.
func (None) Split(_ float64, claims []Band) []float64 {
	parts := make([]float64, len(claims))
	for i, b := range claims {
		parts[i] = b.clean().Wants
	}
	return parts
}

// Share implements Algorithm. A weight cannot exceed 1: no host gets more
// than the whole limit.
func (n None) Share(limit Limit, demands []Rates, grants []Grant) { share(n, limit, demands, grants) }

// NewLeases implements Leasing.
func (n None) NewLeases() *Leases { return newLeases(n) }

func (None) part(_ float64, _ tree, own Band) float64 { return own.Wants }

func (None) bounded() bool { return false }
