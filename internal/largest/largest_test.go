// SPDX-License-Identifier: Apache-2.0

package largest

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
		l := New(rapid.IntRange(0, 8).Draw(t, "n"), larger)
		for _, v := range all {
			if l.Wants(v) {
				l.Add(v)
			}
		}
		slices.SortFunc(all, larger)
		if got, want := l.Sorted(), all[:min(l.n, len(all))]; !slices.Equal(got, want) {
			t.Errorf("the largest are %v, want %v", got, want)
		}
	})
}
