// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// isOddSpace reports whether people see a space or nothing where r is, and YAML reads a letter.
func isOddSpace(r rune) bool {
	return r > 0x7f && (unicode.IsSpace(r) || isUnseen(r))
}

func isUnseen(r rune) bool { return r == 0x200b || r == 0xfeff }

// oddSpace says of the first odd space in text what it is, and what to do; "" if there is none.
func oddSpace(text string) string {
	i := strings.IndexFunc(text, isOddSpace)
	if i < 0 {
		return ""
	}
	r, _ := utf8.DecodeRuneInString(text[i:])
	if isUnseen(r) {
		return fmt.Sprintf("U+%04X cannot be seen, and is a letter in YAML: remove it", r)
	}
	return fmt.Sprintf("U+%04X looks like a space, and is a letter in YAML: write a space instead", r)
}

// misplaced is what oddSpace says of a plain text that begins with one where a field's name, an item or a line begins: people
// mean the text that follows. A value may begin with one.
func misplaced(t *token.Token) (problem string) {
	if r, _ := utf8.DecodeRuneInString(t.Value); !isOddSpace(r) {
		return ""
	}
	before, after := t.Prev, t.Next
	switch {
	case before != nil && (before.Type == token.LiteralType || before.Type == token.FoldedType):
		return ""
	case before == nil, before.Position.Line != t.Position.Line, before.Type == token.SequenceEntryType, after != nil && after.Type == token.MappingValueType:
		return oddSpace(t.Value)
	}
	return ""
}

// isConflict reports whether text begins with a mark that git leaves in a file.
func isConflict(text string) bool {
	for _, mark := range []string{"<<<<<<< ", "||||||| ", ">>>>>>> ", "=======\n"} {
		if strings.HasPrefix(text, mark) {
			return true
		}
	}
	return false
}

// noDash matches lines as `– key: a`.
var noDash = regexp.MustCompile(`^\s*[–—•]`)

// lookalike says of a line with what looks like YAML, and is not, what to do; "" if there is no such thing.
func lookalike(line string) string {
	switch {
	case strings.ContainsFunc(line, isOddSpace):
		return oddSpace(line)
	case strings.Contains(line, "："):
		return "write : and a space instead of ："
	case noDash.MatchString(line):
		return "begin an item with - and a space"
	}
	return ""
}
