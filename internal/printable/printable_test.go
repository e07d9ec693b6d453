// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"unicode/utf8"
)

func TestTextOfStrangersCannotActOnATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"login:alice":                "login:alice",
		`C:\dir`:                     `C:\dir`,
		"größe 🚦 日本":                 "größe 🚦 日本",
		"a\x1b[2Jb":                  `a\x1b[2Jb`,
		"a\r\nb\tc\a":                `a\r\nb\tc\a`,
		"\u009b31m":                  `\u009b31m`,
		"abc\u202edcba":              `abc\u202edcba`,
		"a\u200bb\ufeff\u2028\u00a0": `a\u200bb\ufeff\u2028\u00a0`,
		"\xff\xc0z":                  `\xff\xc0z`,
		"\ufffd":                     "\ufffd",
		"\\\x00":                     `\\\x00`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%q is printed as %s, want %s", text, got, want)
		}
	}
	if got := Lines("a\nb\x1b\n"); !slices.Equal(got, []string{"a", `b\x1b`}) {
		t.Errorf("lines: %q", got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff\\")
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q is printed as %q, which is no UTF-8", s, got)
		}
		for _, r := range got {
			if !strconv.IsPrint(r) {
				t.Errorf("%q is printed as %q", s, got)
			}
		}
	})
}

func TestCountsOfOneAreSingular(t *testing.T) {
	for n, want := range map[int64]string{0: "0 keys", 1: "1 key", 2: "2 keys", -1: "-1 keys"} {
		if got := Count(n, "key", "keys"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestNumbersHaveNoExponentWhereTheyAreLarge(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.5: "0.5", 12.34567: "12.35", 999.96: "1000", 9999.4: "9999", 9999.6: "10000", 10000: "10000",
		-12345.6: "-12346", 3e6: "3000000", 1e12: "1000000000000", math.Inf(1): "+Inf",
	} {
		if got := Number(v, 4); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if got := Number(999.6, 3); got != "1000" {
		t.Errorf("999.6 with 3 digits: %s", got)
	}
}

func TestPartsArePercentages(t *testing.T) {
	for _, c := range []struct {
		v, all float64
		want   string
	}{
		{1, 8, "12.5%"},
		{3, 3, "100.0%"},
		{0, 5, "0.0%"},
		{0, 0, "0%"},
	} {
		if got := Part(c.v, c.all); got != c.want {
			t.Errorf("%v of %v is %s, want %s", c.v, c.all, got, c.want)
		}
	}
}
