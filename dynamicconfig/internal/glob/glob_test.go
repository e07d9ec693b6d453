// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestGlobMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, key string
		want         bool
	}{
		{"a", "a", true},
		{"a", "ab", false}, // the whole key must match
		{"a", "ba", false},
		{"*", "", true},
		{"*", "any/thing:at all", true}, // * matches / and : too
		{"frontend:*", "frontend:", true},
		{"frontend:*", "frontend", false},
		{"*:orders", "frontend:orders", true},
		{"*:orders", "frontend:orders2", false},
		{"a*b*c", "abc", true},
		{"a*b*c", "a-c-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"ab*ba", "aba", false}, // the two ends must not overlap
		{"ab*ba", "abba", true},
		{"a**b", "ab", true},
		{"?", "", false},
		{"?", "x", true},
		{"?", "é", false}, // two bytes
		{"??", "é", true},
		{"*?", "", false},
		{"a*?b", "ab", false},
		{"a*?b", "a-b", true},
		{"shard-[0-9]", "shard-7", true},
		{"shard-[0-9]", "shard-x", false},
		{"[!0-9]*", "x1", true},
		{"[!0-9]*", "1x", false},
		{"[a-]", "-", true},
		{"[a-]", "b", false},
		{"[-a]", "-", true},
		{`[\]]`, "]", true},
		{`[\!a]`, "!", true},
		{`[a\-c]`, "b", false},
		{`\*`, "*", true},
		{`\*`, "x", false},
		{`a\`, "a", false},
		{"a*", "a", true},
		{"aa*", "aa", true},
		{"*aa*aa*", "aaa", false}, // nor any two segments
		{"*aa*aa*", "aaaa", true},
		{"x*[ab][ab]*[ab][ab]*", "xaba", false},
		{"*[ab]c*", "xxacxx", true},
		{"*[ab]c*", "xxaxcx", false},
	} {
		g, err := Compile(tt.pattern)
		if strings.HasSuffix(tt.pattern, `a\`) {
			if err == nil {
				t.Errorf("Compile(%q) takes a lone \\", tt.pattern)
			}
			continue
		}
		if err != nil {
			t.Errorf("Compile(%q): %v", tt.pattern, err)
			continue
		}
		if got := g.Match(tt.key); got != tt.want {
			t.Errorf("%q matches %q: %v, want %v", tt.pattern, tt.key, got, tt.want)
		}
	}
}

// piece is one element of a pattern: a star, or a set of bytes.
type piece struct {
	star bool
	text string       // as the pattern writes it
	has  map[byte]any // what it matches
}

// dumbMatch tries everything.
func dumbMatch(pieces []piece, key string) bool {
	if len(pieces) == 0 {
		return key == ""
	}
	if pieces[0].star {
		for i := range len(key) + 1 {
			if dumbMatch(pieces[1:], key[i:]) {
				return true
			}
		}
		return false
	}
	if key == "" {
		return false
	}
	_, ok := pieces[0].has[key[0]]
	return ok && dumbMatch(pieces[1:], key[1:])
}

var alphabet = []byte(`abc*?[]-!\:`)

func drawPiece(t *rapid.T) piece {
	one := func(label string) byte { return rapid.SampledFrom(alphabet).Draw(t, label) }
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return piece{star: true, text: "*"}
	case 1:
		has := map[byte]any{}
		for b := range 256 {
			has[byte(b)] = nil
		}
		return piece{text: "?", has: has}
	case 2:
		negated := rapid.Bool().Draw(t, "negated")
		from, to := one("from"), one("to")
		if from > to {
			from, to = to, from
		}
		extra := one("extra")
		has := map[byte]any{}
		for b := range 256 {
			if in := byte(b) >= from && byte(b) <= to || byte(b) == extra; in != negated {
				has[byte(b)] = nil
			}
		}
		text := fmt.Sprintf(`\%c-\%c\%c]`, from, to, extra)
		if negated {
			text = "!" + text
		}
		return piece{text: "[" + text, has: has}
	default:
		b := one("byte")
		text := string(b)
		if strings.ContainsRune(`*?[\`, rune(b)) {
			text = `\` + text
		}
		return piece{text: text, has: map[byte]any{b: nil}}
	}
}

func drawPattern(t *rapid.T) (pattern string, pieces []piece) {
	for range rapid.IntRange(1, 6).Draw(t, "pieces") {
		p := drawPiece(t)
		pattern += p.text
		pieces = append(pieces, p)
	}
	return pattern, pieces
}

// drawKey draws keys that often match pieces.
func drawKey(t *rapid.T, pieces []piece) string {
	random := rapid.StringOfN(rapid.RuneFrom([]rune(string(alphabet))), 0, 4, -1)
	if rapid.IntRange(0, 3).Draw(t, "random") == 0 {
		return random.Draw(t, "key")
	}
	var key strings.Builder
	for _, p := range pieces {
		if p.star {
			key.WriteString(random.Draw(t, "run"))
			continue
		}
		for _, b := range alphabet {
			if _, ok := p.has[b]; ok {
				key.WriteByte(b)
				break
			}
		}
	}
	return key.String()
}

func TestGlobAgreesWithADumbMatcher(t *testing.T) {
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		pattern, pieces := drawPattern(t)
		key := drawKey(t, pieces)
		g, err := Compile(pattern)
		if err != nil {
			t.Fatalf("Compile(%q): %v", pattern, err)
		}
		want := dumbMatch(pieces, key)
		if want {
			matched++
		}
		if got := g.Match(key); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, key, got, want)
		}
	})
	if matched == 0 {
		t.Error("no key matched: the test tests little")
	}
}

// A pattern made to drive backtracking matchers into exponential time.
func TestGlobDoesNotBacktrack(t *testing.T) {
	g, err := Compile(strings.Repeat("*a?", 60) + "*b")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if g.Match(strings.Repeat("a", 1024)) {
		t.Error("it matches")
	}
	if d := time.Since(began); d > time.Minute {
		t.Errorf("took %v", d)
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"a*b", "[!a-z]?", `\[`, "[", "[a-", "[]", "**", ""} {
		f.Add(s, "abc")
	}
	f.Fuzz(func(t *testing.T, pattern, key string) {
		g, err := Compile(pattern)
		if err != nil {
			return
		}
		ok := g.Match(key)
		if ok && !strings.HasPrefix(key, g.Prefix()) {
			t.Errorf("%q matches %q without its prefix %q", pattern, key, g.Prefix())
		}
		if !strings.ContainsAny(pattern, `*?[\`) && ok != (pattern == key) {
			t.Errorf("%q matches %q: %v", pattern, key, ok)
		}
	})
}
