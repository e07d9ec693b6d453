// SPDX-License-Identifier: Apache-2.0

// Package sum adds amounts up, and takes them away again, without an error. A
// float64 loses small amounts to large ones, so a sum that is kept for days
// drifts.
//
//	var s sum.Sum
//	s.Add(0.1)
//	s.Add(1 << 53)
//	s.Sub(1 << 53)
//	s.Value() // 0.1, and a Sub of 0.1 leaves exactly 0
//
// The package knows nothing of keys or hosts.
package sum

import "math"

const (
	// Unit is the smallest amount that counts. Amounts are cut to units.
	Unit = 0x1p-48

	// Max is the largest amount; more counts as that. 2²³ of the largest fit.
	Max = 1 << 53
)

// Sum is a sum of amounts from 0 to Max. Its zero value is 0. It is a whole
// number of Units in two words, so adding an amount and taking it away leaves
// it as it was.
type Sum struct {
	high int64 // in units of 2¹⁴
	low  int64 // in Units, in [0, 2⁶²)
}

const (
	split   = 1 << 14
	lowBits = 62
	lowMask = 1<<lowBits - 1
)

// Add adds x. Negative numbers and NaN count as 0.
func (s *Sum) Add(x float64) { s.Replace(0, x) }

// Sub takes x away, which was added before.
func (s *Sum) Sub(x float64) { s.Replace(x, 0) }

// Replace takes old away, which was added before, and adds x.
func (s *Sum) Replace(old, x float64) {
	if !s.ReplaceSmall(old, x) {
		s.large(old, x)
	}
}

// ReplaceSmall is Replace if both amounts are less than 2¹⁴. Else it returns
// false and changes nothing. Callers in a hurry have it inlined.
func (s *Sum) ReplaceSmall(old, x float64) bool {
	// Whatever a conversion makes of what does not fit, it is not in the range of
	// what does.
	less, more := int64(old*(1/Unit)), int64(x*(1/Unit))
	if uint64(less|more) > lowMask {
		return false
	}
	low := s.low + more - less
	if uint64(low) > lowMask {
		s.high += low >> lowBits
		low &= lowMask
	}
	s.low = low
	return true
}

// large is Replace for any amounts.
func (s *Sum) large(old, x float64) {
	oldHigh, oldLow := words(old)
	high, low := words(x)
	low += s.low - oldLow
	s.high += high - oldHigh + low>>lowBits
	s.low = low & lowMask
}

// words is x as what a Sum holds.
func words(x float64) (high, low int64) {
	if !(x > 0) {
		return 0, 0
	}
	x = min(x, Max)
	high = int64(x * (1. / split))
	return high, int64((x - float64(high)*split) * (1 / Unit))
}

// Value is the sum, rounded.
func (s *Sum) Value() float64 { return float64(s.high)*split + float64(s.low)*Unit }

// Zero reports whether all that was added has been taken away.
func (s *Sum) Zero() bool { return *s == Sum{} }

// Up is x in [0, Max], rounded up to whole Units: for sums that must not be too
// small.
func Up(x float64) float64 {
	switch {
	case !(x > 0):
		return 0
	case x < 16: // those above are whole Units
		return math.Ceil(x*(1/Unit)) * Unit
	}
	return min(x, Max)
}

// Grain is what Grains are multiples of.
const Grain = 0x1p-24

// Grains is x, which is at least 0, rounded to a float32 that is a whole number of
// Grains. A float64 adds such numbers up, and takes them away again, without an error
// as long as the sum is less than 2²⁹.
func Grains(x float64) float32 {
	// The last digit of numbers near even stands for a Grain. That of a float32 of 1/2
	// and more stands for at least as much.
	const even = 3 << 27
	return float32(x + even - even)
}

// Parts is a sum of parts of a whole, each from 0 to 1: a smaller Sum. 2²² parts
// fit. Its zero value is 0.
type Parts int64

const partUnit = 0x1p-40

// Add adds x, which is in [0, 1].
func (p *Parts) Add(x float64) { *p += Parts(x * (1 / partUnit)) }

// Sub takes x away, which was added before.
func (p *Parts) Sub(x float64) { *p -= Parts(x * (1 / partUnit)) }

// Value is the sum.
func (p Parts) Value() float64 { return float64(p) * partUnit }
