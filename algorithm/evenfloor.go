// SPDX-License-Identifier: Apache-2.0

package algorithm

// EvenFloor is RequestWeighted, but no host gets less than the even share,
// whatever the cluster uses. It is there to be compared with: with many hosts
// that have little weight it lends the limit twice, and nothing bounds that
// but the even shares of all hosts. Source: Cadence, since 2026.
type EvenFloor struct{ RequestWeighted }

var (
	_ Summed  = EvenFloor{}
	_ Floored = EvenFloor{}
)

// Floor implements Floored.
func (EvenFloor) Floor() Floor { return FloorEven }
