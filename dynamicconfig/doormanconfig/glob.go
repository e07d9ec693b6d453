// SPDX-License-Identifier: Apache-2.0

package doormanconfig

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// glob is a Doorman glob (the syntax of Go's path.Match) in our syntax.
type glob struct {
	key     string // the pattern, or the exact key
	slashes int    // that each matching name has at least

	// What may match otherwise here.
	runes bool // it has ? or a class: one character there, one byte here
	slash bool // it has a class with the slash in it
}

// translate turns a Doorman glob into ours. Its error says what is wrong
// with it, for a person.
func translate(pattern string) (glob, error) {
	var g glob
	var b strings.Builder
	wild, escapeAt := false, -1
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*', '?':
			wild = true
			b.WriteByte(c)
			g.runes = g.runes || c == '?'
		case '[':
			text, width, slash, err := translateClass(pattern[i:])
			if err != nil {
				return g, err
			}
			b.WriteString(text)
			i += width - 1
			wild, g.runes, g.slash = true, true, g.slash || slash
		case '\\':
			if i+1 == len(pattern) {
				return g, errors.New(`ends with a lone \`)
			}
			if i++; pattern[i] < utf8.RuneSelf {
				escapeAt = b.Len()
			}
			g.literal(&b, pattern[i])
		default:
			g.literal(&b, c)
		}
	}
	g.key = b.String()
	if !wild && escapeAt >= 0 {
		// Doorman takes it for a glob, in its turn. Here it would be an exact
		// key, which comes before all globs, if none of it were a class.
		rest := strings.TrimPrefix(g.key[escapeAt:], `\`)
		var class strings.Builder
		member(&class, rest[0])
		g.key = g.key[:escapeAt] + "[" + class.String() + "]" + rest[1:]
	}
	return g, nil
}

// literal writes one byte that stands for itself.
func (g *glob) literal(b *strings.Builder, c byte) {
	if strings.IndexByte(`*?[\`, c) >= 0 {
		b.WriteByte('\\')
	}
	b.WriteByte(c)
	if c == '/' {
		g.slashes++
	}
}

// translateClass turns the class that text begins with into ours, and says
// how many bytes it took and whether it matches a slash.
func translateClass(text string) (class string, width int, slash bool, err error) {
	var b strings.Builder
	b.WriteByte('[')
	i := 1
	negated := strings.HasPrefix(text[i:], "^")
	if negated {
		b.WriteByte('!')
		i++
	}
	next := func() (byte, error) {
		switch {
		case i < len(text) && (text[i] == '-' || text[i] == ']'):
			return 0, fmt.Errorf(`has a class with a %c in the wrong place: write \%c for the byte itself`, text[i], text[i])
		case i < len(text) && text[i] == '\\':
			i++
		}
		switch {
		case i >= len(text):
			return 0, errors.New("has a [ that is never closed")
		case text[i] >= utf8.RuneSelf:
			return 0, errors.New("has a class of other than ASCII characters, which classes of bytes cannot stand for: write one entry for each")
		}
		i++
		return text[i-1], nil
	}
	for start := i; i == start || i >= len(text) || text[i] != ']'; {
		from, err := next()
		to := from
		if err == nil && i < len(text) && text[i] == '-' {
			i++
			to, err = next()
		}
		if err != nil {
			return "", 0, false, err
		}
		if to < from {
			return "", 0, false, fmt.Errorf("has the class range %q that runs backwards and matches nothing", text[start:i])
		}
		member(&b, from)
		if to > from {
			b.WriteByte('-')
			member(&b, to)
		}
		slash = slash || from <= '/' && '/' <= to
	}
	b.WriteByte(']')
	return b.String(), i + 1, slash != negated, nil
}

// member writes one byte of a class.
func member(b *strings.Builder, c byte) {
	if strings.IndexByte(`\]-!`, c) >= 0 {
		b.WriteByte('\\')
	}
	b.WriteByte(c)
}
