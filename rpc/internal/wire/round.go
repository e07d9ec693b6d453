// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"
	"time"
)

// Weight32 rounds down, so that a weight never grows on the wire.
func Weight32(w float64) float32 {
	f := float32(w)
	if float64(f) > w {
		f = math.Nextafter32(f, 0)
	}
	return f
}

// Weight16 is the upper half of Weight32, and so rounds down too.
func Weight16(w float64) uint16 { return uint16(math.Float32bits(Weight32(w)) >> 16) }

// Size16 is the upper half of the nearest float32 that has no lower half and is
// finite.
func Size16(v float64) uint16 {
	const largest = 0x7f7f
	bits := uint64(math.Float32bits(Size32(v)))
	return uint16(min((bits+0x7fff+bits>>16&1)>>16, largest))
}

// Size32 is the nearest float32 that is finite, of a number that is not negative.
func Size32(v float64) float32 { return float32(min(v, math.MaxFloat32)) }

// bits32 is the nearest float32 that is finite, as its bits.
func bits32(v float64) uint32 { return math.Float32bits(Size32(max(v, -math.MaxFloat32))) }

// Float is the float32 with these bits.
func Float(bits uint32) float64 { return float64(math.Float32frombits(bits)) }

// Nearest is the nearest whole number of milliseconds, at least one.
func Nearest(d time.Duration) uint64 {
	return uint64(max(d.Round(time.Millisecond).Milliseconds(), 1))
}

// Down is a whole number of milliseconds, rounded down so that no lease becomes
// longer, but never to 0, which means that there is no lease.
func Down(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64(max(d.Milliseconds(), 1))
}

// Up is a whole number of units, rounded up.
func Up(d, unit time.Duration) uint64 { return uint64((d + unit - 1) / unit) }

// Period is a duration of so many units. One above most is left above it, for the
// check of the row, and does not overflow.
func Period(wire uint64, unit, most time.Duration) time.Duration {
	return time.Duration(min(wire, uint64(most/unit)+1)) * unit
}

// Bit is 1 for true.
func Bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
