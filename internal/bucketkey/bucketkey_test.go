// SPDX-License-Identifier: Apache-2.0

package bucketkey

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNamesBecomeReadableKeys(t *testing.T) {
	for names, want := range map[[2]string]string{
		{"a", "b"}:       "a:b",
		{"a", "b:c%"}:    "a:b:c%",
		{"a:b", "c"}:     "a%3Ab:c",
		{"a%3Ab", "c"}:   "a%253Ab:c",
		{"a", "long"}:    "a:long",
		{"50%", "of it"}: "50%25:of it",
	} {
		if got := Of(names[0], names[1]); got != want {
			t.Errorf("%q is %q, want %q", names, got, want)
		}
	}
}

// Names of any length fit a rule, and no two of them are the same key.
func TestLongNamesFitAndStayApart(t *testing.T) {
	seen := make(map[string][2]string)
	for _, unit := range []string{"x", "*", "é", ":", "%"} {
		for _, n := range []int{1, 100, 255, 256, 257, 511, 512, 513, 900, 1022, 1023, 1024, 5000} {
			long := strings.Repeat(unit, n)
			for _, names := range [][2]string{{long, "b"}, {long, "c"}, {"a", long}, {long, long}, {long + "y", long}} {
				key := Of(names[0], names[1])
				if escaped(key) > maxKey || !utf8.ValidString(key) || !strings.HasPrefix(key, Namespace(names[0])) || strings.Count(Namespace(names[0]), ":") != 1 {
					t.Errorf("%.10q × %d becomes %q", unit, n, key)
				}
				if other, taken := seen[key]; taken && other != names {
					t.Errorf("%.10q and %.10q are both %.20q", names, other, key)
				}
				seen[key] = names
				if _, hashed, ok := strings.Cut(key, ":"); ok && Of("a", hashed) == Of("a", names[1]) && hashed != names[1] {
					t.Errorf("a bucket that is named as the key of %.10q × %d passes for it", unit, n)
				}
			}
		}
	}
}
