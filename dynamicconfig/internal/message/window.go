// SPDX-License-Identifier: Apache-2.0

package message

import (
	"strings"
	"unicode/utf8"
)

// Window cuts line to what fits a screen around character column (from 0),
// and returns the blanks that put a caret under it. Tabs stay tabs.
func Window(line string, column int) (text, indent string) {
	const most, before = 120, 80
	runes := []rune(line)
	column = min(max(column, 0), len(runes))
	lead := ""
	if column > before {
		runes, column = runes[column-before:], before
		lead = "…"
	}
	tail := ""
	if len(runes) > most {
		runes, tail = runes[:most], "…"
	}
	blanks := func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}
	visible := func(r rune) rune {
		if r != '\t' && (r < ' ' || r == 0x7f || r == utf8.RuneError) {
			return '?' // a terminal must not act on a config file's bytes
		}
		return r
	}
	indent = strings.Map(blanks, lead+string(runes[:column]))
	return lead + strings.Map(visible, string(runes)) + tail, indent
}
