// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

const escapeAdvice = `in double quotes, write \\ for one \, or use single quotes`

// badEscape finds the first \x, \u or \U in double quotes without the digits of a character
// behind it, and says what is wrong; empty if there is none. The YAML library makes some
// character of whatever is there, so that "corp\users" would be another key.
func badEscape(text string, tokens token.Tokens) (at Mark, problem string) {
	now, place := Mark{1, 1}, 0 // goes forward to each token, so that a long line is read once
	for _, t := range tokens {
		for ; place < len(text) && (now.Line < t.Position.Line || now.Line == t.Position.Line && now.Column < t.Position.Column); now.Column++ {
			_, size := utf8.DecodeRuneInString(text[place:])
			if text[place] == '\n' {
				now = Mark{now.Line + 1, 0}
			}
			place += size
		}
		quote := 1
		switch {
		case t.Type == token.InvalidType && strings.HasPrefix(text[place:], `\`): // what the library found itself
			quote = 0
		case t.Type != token.DoubleQuoteType && t.Type != token.InvalidType || !strings.HasPrefix(text[place:], `"`):
			continue
		}
		if n, problem := badEscapeIn(text[place+quote:]); problem != "" {
			inside := text[place : place+quote+n]
			if lines := strings.Count(inside, "\n"); lines > 0 {
				return Mark{now.Line + lines, utf8.RuneCountInString(inside[strings.LastIndexByte(inside, '\n')+1:]) + 1}, problem
			}
			return Mark{now.Line, now.Column + utf8.RuneCountInString(inside)}, problem
		}
	}
	return Mark{}, ""
}

// badEscapeIn looks at text up to the double quote that ends it, and returns the place of the
// first \x, \u or \U that is wrong.
func badEscapeIn(text string) (at int, problem string) {
	for i := 0; i < len(text) && text[i] != '"'; i++ {
		if text[i] != '\\' || i+1 == len(text) {
			continue
		}
		escape := i
		i++
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[i]]
		if digits == 0 {
			continue
		}
		r, ok := hexadecimal(text[i+1:], digits)
		if !ok {
			return escape, `\` + text[i:i+1] + " has no " + strconv.Itoa(digits) + " hexadecimal digits behind it: " + escapeAdvice
		}
		i += digits
		if low, ok := hexadecimal(strings.TrimPrefix(text[i+1:], `\u`), 4); r >= 0xD800 && r < 0xDC00 && strings.HasPrefix(text[i+1:], `\u`) && ok && low >= 0xDC00 && low < 0xE000 {
			i += 6 // two halves, as JSON has them
			continue
		}
		if r > utf8.MaxRune || !utf8.ValidRune(rune(r)) {
			return escape, text[escape:i+1] + " is not a character: " + escapeAdvice
		}
	}
	return 0, ""
}

// hexadecimal reads the number that the first digits of text are.
func hexadecimal(text string, digits int) (n uint64, ok bool) {
	if len(text) < digits {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:digits], 16, 32)
	return n, err == nil
}
