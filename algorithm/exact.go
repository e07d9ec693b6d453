// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"math"
	"math/bits"
)

// exact is a sum of amounts that does not drift, whatever is added and taken
// away again: a whole number of units of 2⁻⁵⁰, in 128 bits. Amounts are in
// [0, maxAmount], and rounded up to units. 2²⁵ of the largest fit.
type exact struct{ high, low uint64 }

const (
	lowBits = 14 // of the low word's 64, above the binary point
	perLow  = 1 << lowBits
	units   = 1 << (64 - lowBits) // in 1
)

func exactly(x float64) exact {
	x = within(x, maxAmount)
	high := math.Floor(x / perLow)
	return exact{uint64(high), uint64(math.Ceil((x - high*perLow) * units))}
}

func (e exact) plus(x float64) exact {
	by := exactly(x)
	low, carry := bits.Add64(e.low, by.low, 0)
	high, _ := bits.Add64(e.high, by.high, carry)
	return exact{high, low}
}

// minus takes x away, which was added before.
func (e exact) minus(x float64) exact {
	by := exactly(x)
	low, borrow := bits.Sub64(e.low, by.low, 0)
	high, _ := bits.Sub64(e.high, by.high, borrow)
	return exact{high, low}
}

func (e exact) value() float64 {
	return float64(e.high)*perLow + float64(e.low)/units
}
