// SPDX-License-Identifier: Apache-2.0

package ringpop

import (
	"math/bits"
	"slices"
)

// jumpTable finds a hash among sorted points. It cuts the hashes into as many
// equal stretches as there are points, or up to twice that, and knows where
// each stretch begins. Hashes lie evenly, so a stretch has one point or so:
// a lookup is a jump and a step or two, where a binary search of 100,000
// points takes 17 steps, each with a branch that the processor cannot predict.
type jumpTable struct {
	// first[s] is the number of points before stretch s; one more at the
	// end is the number of all points.
	first []uint32
	// shift takes a point to its stretch; in [32, 63].
	shift uint8
}

// crowded is the number of points in a stretch from which on binary search
// is faster. Chance does not crowd one, but names chosen on purpose can.
const crowded = 16

func newJumpTable(circle []point) jumpTable {
	// At least one bit, so that the shift is below 64.
	width := max(1, bits.Len(uint(max(len(circle), 1)-1)))
	t := jumpTable{first: make([]uint32, 1<<width+1), shift: uint8(64 - width)}
	// Counting first and summing up then has no branch to mispredict.
	for _, p := range circle {
		t.first[p>>(t.shift&63)+1]++
	}
	sum := uint32(0)
	for i, n := range t.first {
		sum += n
		t.first[i] = sum
	}
	return t
}

// search returns the position of the first point at or after hash, or
// len(circle). The circle must be the one that the table was made for.
func (t *jumpTable) search(circle []point, hash uint32) int {
	want := makePoint(hash, 0)
	stretch := want >> (t.shift & 63) // the mask spares a check
	i, end := int(t.first[stretch]), int(t.first[stretch+1])
	if end-i >= crowded {
		n, _ := slices.BinarySearch(circle[i:end], want)
		return i + n
	}
	for i < end && circle[i] < want {
		i++
	}
	return i
}
