// SPDX-License-Identifier: Apache-2.0

package aggregator

import "github.com/headgate/headgate/algorithm"

// total adds demands up, and takes them away again, without losing small ones
// to large ones. A plain sum to which 2⁵³ was added and taken from again may
// be off by one, which is all that most hosts demand.
type total struct{ sum, lost algorithm.Demand }

func (t *total) add(d algorithm.Demand) {
	t.sum.Allowed, t.lost.Allowed = add(t.sum.Allowed, t.lost.Allowed, d.Allowed)
	t.sum.Rejected, t.lost.Rejected = add(t.sum.Rejected, t.lost.Rejected, d.Rejected)
}

// replace takes old away and adds d.
func (t *total) replace(old, d algorithm.Demand) {
	sum, lost := add(t.sum.Allowed, t.lost.Allowed, -old.Allowed)
	t.sum.Allowed, t.lost.Allowed = add(sum, lost, d.Allowed)
	sum, lost = add(t.sum.Rejected, t.lost.Rejected, -old.Rejected)
	t.sum.Rejected, t.lost.Rejected = add(sum, lost, d.Rejected)
}

// demand is the total; what rounding is left does not take it below zero.
func (t *total) demand() algorithm.Demand {
	d := t.sum.Plus(t.lost)
	if d.Allowed < 0 {
		d.Allowed = 0
	}
	if d.Rejected < 0 {
		d.Rejected = 0
	}
	return d
}

// add adds x to sum, and what rounding took from the sum to lost. The
// rounding error of an addition is a float64 itself, and this is how to get
// it without knowing which of the two is larger: Knuth's two-sum.
func add(sum, lost, x float64) (newSum, newLost float64) {
	s := sum + x
	part := s - sum
	return s, lost + ((sum - (s - part)) + (x - part))
}
