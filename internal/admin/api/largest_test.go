// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestLargestIsTheBeginOfAllSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		larger := func(a, b int) int { return cmp.Compare(b, a) }
		all := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 60).Draw(t, "all")
		l := largest[int]{n: rapid.IntRange(1, 8).Draw(t, "n"), larger: larger}
		for _, v := range all {
			if l.wants(v) {
				l.add(v)
			}
		}
		slices.SortFunc(all, larger)
		if got, want := l.sorted(), all[:min(l.n, len(all))]; !slices.Equal(got, want) {
			t.Errorf("the largest are %v, want %v", got, want)
		}
	})
}
