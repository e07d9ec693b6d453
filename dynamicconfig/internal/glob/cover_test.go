// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Covers is right about all short keys of three letters: no key is the other's alone. The
// third, c, is in no pattern, and stands for all other bytes.
func TestCoversAgreesWithAllShortKeys(t *testing.T) {
	keys := []string{""}
	for i := 0; len(keys[i]) < 6; i++ {
		keys = append(keys, keys[i]+"a", keys[i]+"b", keys[i]+"c")
	}
	pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "?", "*", "[ab]", "[!a]"}), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		wide, narrow := strings.Join(pattern.Draw(t, "wide"), ""), strings.Join(pattern.Draw(t, "narrow"), "")
		g, _ := Compile(wide)
		other, _ := Compile(narrow)
		want := true
		for _, key := range keys {
			want = want && (!other.Match(key) || g.Match(key))
		}
		if got := g.Covers(other); got != want {
			t.Errorf("%q covers %q: %v, want %v", wide, narrow, got, want)
		}
	})
}
