// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
)

// The parser refuses a backslash sequence that is no escape, at its place. It never reads it as another text.
func TestEscapesThatAreNoneAreRefused(t *testing.T) {
	const none, noCharacter = "hexadecimal digits", "is not a character"
	for _, tc := range []struct {
		text, problem string
		at            Mark
	}{
		{`a: "corp\users"`, none, Mark{1, 9}},
		{`a: "\xZZ"`, none, Mark{1, 5}},
		{`a: "\x4"`, none, Mark{1, 5}},
		{`a: "sales\Users\x"`, none, Mark{1, 10}},
		{`a: "\U00110000"`, noCharacter, Mark{1, 5}},
		{`a: "\uDC00"`, noCharacter, Mark{1, 5}},
		{`a: "\uD800 "`, noCharacter, Mark{1, 5}},
		{`a: "\uD800\uD800"`, noCharacter, Mark{1, 5}},
		{`{"é": "ok", "\xé": 1}`, none, Mark{1, 14}},
		{"a:\n  - \"é\n     \\\\ é\\u+123\"", none, Mark{3, 10}},
		{`"\xg": 1`, none, Mark{1, 2}},
		{`- {a: "\x41", b: "\xag"}`, none, Mark{1, 19}},
	} {
		f := NewFile([]byte(tc.text), Dialect{})
		root := f.Parse()
		if root != nil || len(f.found) != 1 || f.found[0].at != tc.at || !strings.Contains(f.found[0].message, tc.problem) || !strings.Contains(f.found[0].message, escapeAdvice) {
			t.Errorf("%s: %v %+v, want %q at %v", tc.text, root, f.found, tc.problem, tc.at)
		}
	}
	for text, want := range map[string]string{
		`"\x41\u00e9\U0001F600"`: "Aé😀",
		`"\ud83d\ude00"`:         "😀",
		`"a\\users \\xZZ"`:       `a\users \xZZ`,
		`'a\users'`:              `a\users`,
		`a\users`:                `a\users`,
		`"\"\\" # \users "\x"`:   `"\`,
	} {
		f := NewFile([]byte(text), Dialect{})
		if got, _, _ := Plain(f.Parse()); got != want || f.Any() {
			t.Errorf("%s: %q, %+v; want %q", text, got, f.found, want)
		}
	}
}

// Items of a large file that the YAML library reads are checked as those of a small one.
func TestEscapesThatAreNoneAreRefusedInLargeFiles(t *testing.T) {
	for text, good := range map[string]bool{`"corp\x41"`: true, `"corp\users"`: false} {
		read := 0
		bad := new(List).Read(Piece{Text: "- key: " + text + "\n"}, func(ast.Node) { read++ })
		if (bad == 0) != good || (read == 1) != good {
			t.Errorf("%s: %d items, line %d is not understood", text, read, bad)
		}
	}
}
