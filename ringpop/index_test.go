// SPDX-License-Identifier: Apache-2.0

package ringpop

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestJumpsLandWhereABinarySearchWould also covers circles that real names
// hardly make: crowded stretches, points at both ends, equal hashes.
func TestJumpsLandWhereABinarySearchWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Uint32().Draw(t, "base")
		hash := rapid.OneOf(
			rapid.Uint32(),
			rapid.SampledFrom([]uint32{0, 1, math.MaxUint32 - 1, math.MaxUint32}),
			rapid.Custom(func(t *rapid.T) uint32 { return base + rapid.Uint32Range(0, 60).Draw(t, "near") }),
		)
		point := rapid.Custom(func(t *rapid.T) point {
			return makePoint(hash.Draw(t, "hash"), rapid.IntRange(0, 3).Draw(t, "host"))
		})
		n := rapid.SampledFrom([]int{0, 1, 2, 3, 20, 100, 200}).Draw(t, "points") // left alone, rapid prefers few
		circle := rapid.SliceOfN(point, n, n).Draw(t, "circle")
		slices.Sort(circle)
		table := newJumpTable(circle)
		for _, h := range rapid.SliceOfN(hash, 1, 50).Draw(t, "lookups") {
			want := 0
			for want < len(circle) && circle[want].hash() < h {
				want++
			}
			if got := table.search(circle, h); got != want {
				t.Fatalf("hash %#x lands at %d of %d, want %d", h, got, len(circle), want)
			}
		}
	})
}

func TestPointsKeepHashAndHost(t *testing.T) {
	for _, hash := range []uint32{0, 1, math.MaxUint32} {
		for _, host := range []int{0, 1, MaxTotalPoints - 1} {
			if p := makePoint(hash, host); p.hash() != hash || p.host() != host {
				t.Errorf("makePoint(%d, %d) holds %d, %d", hash, host, p.hash(), p.host())
			}
		}
	}
}
