// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
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
		line, indent := message.Window(e.Source, e.Column-1)
		fmt.Fprintf(&b, "\n%5d | %s\n      | %s^", e.Line, line, indent)
	}
	return b.String()
}

// origin is where a configuration came from.
type origin struct {
	name string
	text string // empty when made in code

	first *Snapshot // of the same text, which shares all but the name; kept for parsed to find. nil if this is the first
}

// err is nil, or an *Error for each of p joined.
func (o origin) err(p *strictyaml.Problems) error {
	return p.Err(func(at strictyaml.Mark, message, source string) error {
		return &Error{Name: o.name, Line: at.Line, Column: at.Column, Message: message, Source: source}
	})
}

// inOrder joins errors, in the order of the text; those without a place come last.
func inOrder(errs ...error) error {
	all := flat(errs)
	line := func(err error) (line, column int) {
		if e, ok := errors.AsType[*Error](err); ok && e.Line > 0 {
			return e.Line, e.Column
		}
		return math.MaxInt, 0
	}
	slices.SortStableFunc(all, func(a, b error) int {
		x, i := line(a)
		y, j := line(b)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(i, j))
	})
	return errors.Join(all...)
}

// flat is each single error of errs, which may be joined ones.
func flat(errs []error) (single []error) {
	for _, err := range errs {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			single = append(single, flat(joined.Unwrap())...)
		} else if err != nil {
			single = append(single, err)
		}
	}
	return single
}

// problem is the one error of a place.
func (o origin) problem(at strictyaml.Mark, format string, args ...any) error {
	p := strictyaml.Problems{Text: o.text}
	p.Add(at, format, args...)
	return o.err(&p)
}
