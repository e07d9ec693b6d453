// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// indexed is the Index of patterns.
func indexed(t interface{ Fatal(args ...any) }, patterns []string) *Index {
	var x Index
	for i, pattern := range patterns {
		g, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		x.Add(i, g)
	}
	x.Finish()
	return &x
}

// Find must find what a walk over all patterns in order finds, exact keys first.
func TestFindAgreesWithAWalkOverAllPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var patterns []string
		var exact []bool
		var all [][]piece
		seen := map[string]bool{}
		for range rapid.OneOf(rapid.IntRange(0, 12), rapid.IntRange(manyGlobs, 4*manyGlobs)).Draw(t, "patterns") {
			pattern, pieces := drawPattern(t)
			g, err := Compile(pattern)
			if err != nil {
				t.Fatal(err)
			}
			name := pattern
			if g.Exact() {
				name = g.Prefix()
			}
			if seen[name] || seen[pattern] {
				continue
			}
			seen[name], seen[pattern] = true, true
			patterns, exact, all = append(patterns, pattern), append(exact, g.Exact()), append(all, pieces)
		}
		x := indexed(t, patterns)
		var pieces []piece
		if len(all) > 0 {
			pieces = rapid.SampledFrom(all).Draw(t, "aim")
		}
		key := drawKey(t, pieces)
		want := -1
		for _, first := range []bool{true, false} {
			for i := range patterns {
				if want < 0 && exact[i] == first && dumbMatch(all[i], key) {
					want = i
				}
			}
		}
		if got := x.Find(key); got != want {
			t.Fatalf("Find(%q) = %d, want %d of %q", key, got, want, patterns)
		}
	})
}

// As many patterns as a file may have, that begin alike and have stars in the middle,
// cost a key about as much as a few.
func TestManyGlobsAreNotTriedOneByOne(t *testing.T) {
	var patterns []string
	for i := range 31_000 {
		patterns = append(patterns, fmt.Sprintf("*:tenant-%d:*:m%d*", i, i%7))
	}
	x := indexed(t, patterns)
	if got := x.Find("eu:tenant-30999:x:m" + fmt.Sprint(30999%7) + "y"); got != 30999 {
		t.Errorf("the last pattern is not found, but %d", got)
	}
	for _, group := range x.globs {
		tried := len(group.rest)
		for key, part := "eu:tenant-30999:some:method-of-a-long-name", 0; part < len(group.lengths); part++ {
			for i := 0; i+group.lengths[part] <= len(key); i++ {
				tried += len(group.parts[key[i:i+group.lengths[part]]])
			}
		}
		if tried > 100 {
			t.Errorf("%d of %d globs are tried", tried, len(group.all))
		}
	}
}
