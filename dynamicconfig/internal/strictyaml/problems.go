// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mark is a place in a text, counting from 1, Column in characters. The zero
// Mark is nowhere.
type Mark struct{ Line, Column int }

// Problems collects what is wrong with one text. The zero Problems is of no
// text and empty.
type Problems struct {
	// Text is what Marks point into; empty when there is none.
	Text string

	found []found
	more  int // found after the list was full
}

type found struct {
	at      Mark
	message string
}

// maxProblems bounds what one text can say; one of 1 MiB may have a mistake
// in each line.
const (
	maxProblems     = 20
	maxKeptProblems = 1000
)

// Add takes one more problem.
func (p *Problems) Add(at Mark, format string, args ...any) {
	if p.full() {
		p.more++
		return
	}
	p.found = append(p.found, found{at, fmt.Sprintf(format, args...)})
}

// full reports whether more problems are only counted.
func (p *Problems) full() bool { return len(p.found) >= maxKeptProblems }

// Any reports whether there are problems.
func (p *Problems) Any() bool { return len(p.found) > 0 }

// Each calls f for each of the problems, in the order of the text; source is its line.
func (p *Problems) Each(f func(at Mark, message, source string)) {
	p.sort()
	line, rest := 1, p.Text
	for _, found := range p.found {
		for ; line < found.at.Line && rest != ""; line++ {
			_, rest, _ = strings.Cut(rest, "\n")
		}
		source := ""
		if found.at.Line > 0 {
			source, _, _ = strings.Cut(rest, "\n")
		}
		f(found.at, found.message, source)
	}
}

func (p *Problems) sort() {
	slices.SortStableFunc(p.found, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
}

// Err is nil, or the problems joined in the order of the text, at most 20
// and how many more there are. of makes the error of one; source is its line.
func (p *Problems) Err(of func(at Mark, message, source string) error) error {
	p.sort()
	list := slices.Compact(p.found)
	more := p.more
	if len(list) > maxProblems {
		more += len(list) - maxProblems
		list = list[:maxProblems]
	}
	var errs []error
	for _, f := range list {
		errs = append(errs, of(f.at, f.message, p.line(f.at.Line)))
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// line is the text of line n, without its end.
func (p *Problems) line(n int) string {
	rest := p.Text
	for i := 1; i < n; i++ {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSuffix(line, "\r")
}
