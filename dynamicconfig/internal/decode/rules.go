// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// rules are those of a large file. Runs of an earlier one that stand in it are not read again.
type rules struct {
	*strictyaml.List

	d      *decoder
	before *build.Content // the earlier one; nil without one
	runs   []*build.Run   // of before, in order
	next   int            // of runs: the one that comes next if nothing has changed
	lines  map[string]int // runs by their first lines; nil until something has changed
	reused bool           // Runs of before may be in use
}

// newRules finds the rules that d is to read; nil if the text has not the form that large files have.
func newRules(d *decoder, before *build.Content) *rules {
	r := &rules{d: d, before: before}
	if before != nil {
		for _, p := range before.Runs {
			if p.Text != "" {
				r.runs = append(r.runs, p.Run)
			}
		}
	}
	list, ok := d.Large("limits", MaxSize, r.find)
	if !ok {
		return nil
	}
	r.List = list
	return r
}

// find returns which of runs text begins with, and how many bytes that has; 0 if with none. Text begins with an item.
func (r *rules) find(text string) (which, n int) {
	if r.next == len(r.runs) || !strings.HasPrefix(text, r.runs[r.next].Text) {
		if r.lines == nil {
			r.lines = make(map[string]int, len(r.runs))
			for i, run := range r.runs {
				r.lines[firstLine(run.Text)] = i
			}
		}
		at, ok := r.lines[firstLine(text)]
		if !ok || !strings.HasPrefix(text, r.runs[at].Text) {
			return 0, 0
		}
		r.next = at
	}
	r.next++
	return r.next - 1, len(r.runs[r.next-1].Text)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// read has the decoder read the rules. The defaults were read.
func (r *rules) read() {
	d := r.d
	r.reused = d.Follows(r.before)
	if n := len(r.runs); n > 0 {
		d.Grow(len(r.before.Rules) + len(r.Pieces))
	} else {
		for _, p := range r.Pieces {
			n += p.Items
		}
		d.Grow(n)
	}
	number := 0 // of the next rule
	for _, p := range r.Pieces {
		if r.reused && p.Known >= 0 {
			d.Reuse(r.runs[p.Known], p.Line)
			number += len(r.runs[p.Known].Rules)
			continue
		}
		p.Text = strings.Clone(p.Text) // the Run must not keep all of the text
		d.Begin(p.Text, p.Line, p.Items)
		rest := r.Read(p, func(item ast.Node) {
			d.limit(number, item)
			number++
		})
		if rest > 0 {
			r.Rest = rest
			break
		}
	}
	d.End()
	if r.Rest > 0 {
		d.Add(build.Mark{Line: r.Rest, Column: 1}, "is not understood in a file of more than %d bytes: write the rule as - {key: \"a\", limit: 1/s}, or each of its fields in a line of its own", MaxSize)
	}
}
