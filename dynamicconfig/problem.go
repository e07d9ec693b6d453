// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Error is one thing that is wrong with a configuration. Parse, Config and
// Check return several of them joined; errors.As finds the first.
type Error struct {
	// Name is the file or other source; empty when the configuration was
	// made in code without a name.
	Name string

	// Line and Column count from 1, Column in characters. Both are 0 when
	// there is no text to point into.
	Line, Column int

	// Message says what is wrong and what to do.
	Message string

	// Source is the text of the line, without its end.
	Source string
}

// Error is `name:line:column: message`, then the source line with a caret
// under the column.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Name != "" {
		b.WriteString(e.Name)
		b.WriteByte(':')
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(e.Message)
	if e.Line > 0 {
		line, indent := window(e.Source, e.Column-1)
		fmt.Fprintf(&b, "\n%5d | %s\n      | %s^", e.Line, line, indent)
	}
	return b.String()
}

// window cuts line to what fits a screen around character column (from 0),
// and returns the blanks that put a caret under it. Tabs stay tabs.
func window(line string, column int) (text, indent string) {
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

// mark is a place in a text; the zero mark is nowhere.
type mark struct{ line, column int }

// origin is where a configuration came from.
type origin struct {
	name string
	text string // empty when made in code
}

func (o *origin) errorAt(at mark, message string) *Error {
	e := &Error{Name: o.name, Line: at.line, Column: at.column, Message: message}
	rest := o.text
	for n := 1; n < at.line; n++ {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	line, _, _ := strings.Cut(rest, "\n")
	e.Source = strings.TrimSuffix(line, "\r")
	return e
}

// problems collects what is wrong with one configuration.
type problems struct {
	origin *origin
	found  []found
	more   int // found after the list was full
}

type found struct {
	at      mark
	message string
}

// maxProblems bounds what one configuration can say; a file of 1 MiB may
// have a mistake in each line.
const (
	maxProblems     = 20
	maxKeptProblems = 1000
)

func (p *problems) add(at mark, format string, args ...any) {
	if len(p.found) >= maxKeptProblems {
		p.more++
		return
	}
	p.found = append(p.found, found{at, fmt.Sprintf(format, args...)})
}

// err is nil, or all problems joined in the order of the text.
func (p *problems) err() error {
	slices.SortStableFunc(p.found, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.at.line, b.at.line), cmp.Compare(a.at.column, b.at.column))
	})
	list := slices.Compact(p.found)
	more := p.more
	if len(list) > maxProblems {
		more += len(list) - maxProblems
		list = list[:maxProblems]
	}
	var errs []error
	for _, f := range list {
		errs = append(errs, p.origin.errorAt(f.at, f.message))
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
