// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// excerpt is a text without the rules that an edit does not need: the YAML library takes
// seconds for 100,000 rules.
type excerpt struct {
	whole string
	kept  []part // in order, one or more
}

// part is from one place of the whole text to another.
type part struct{ from, to int }

// excerptOf is what is outside the list of rules, the rules with these numbers, and those beside
// them, which tell where the lines of a rule end. rules is how many text has. Where the list
// cannot be told from the lines alone, the excerpt is all of text.
func excerptOf(text string, rules int, numbers []int) excerpt {
	all := excerpt{text, []part{{0, len(text)}}}
	f := strictyaml.NewFile([]byte(text), strictyaml.Dialect{})
	begin, end, ok := f.Items("limits")
	if !ok || f.Text != text {
		return all
	}
	begins := beginsOf(text, begin, end)
	if len(begins) != rules || rules == 0 {
		return all
	}
	x := excerpt{whole: text, kept: []part{{0, begins[0]}}}
	for _, n := range append(slices.Sorted(slices.Values(numbers)), rules) {
		for i := max(n-1, 0); i <= min(n+1, rules-1); i++ {
			x.keep(begins, i, len(text))
		}
	}
	return x
}

// beginsOf is where the items of a list begin, whose lines are from begin to end.
func beginsOf(text string, begin, end int) (begins []int) {
	column := -1
	for at := begin; at < end; {
		line, _, _ := strings.Cut(text[at:end], "\n")
		rest := strings.TrimLeft(line, " ")
		if indent := len(line) - len(rest); strings.HasPrefix(rest, "-") && (column < 0 || indent == column) {
			column = indent
			begins = append(begins, at)
		}
		at += len(line) + 1
	}
	return begins
}

// keep adds the item of a number, and with the last one all that follows. An item may be kept already.
func (x *excerpt) keep(begins []int, number, end int) {
	p := part{begins[number], end}
	if number+1 < len(begins) {
		p.to = begins[number+1]
	}
	last := &x.kept[len(x.kept)-1]
	switch {
	case p.from < last.to:
	case p.from == last.to:
		last.to = p.to
	default:
		x.kept = append(x.kept, p)
	}
}

// text is that of the excerpt.
func (x excerpt) text() string {
	if len(x.kept) == 1 && x.kept[0] == (part{0, len(x.whole)}) {
		return x.whole
	}
	var b strings.Builder
	for _, p := range x.kept {
		b.WriteString(x.whole[p.from:p.to])
	}
	return b.String()
}

// in is the place in the whole text of a place in the excerpt. Between two parts it is the end of the first.
func (x excerpt) in(at int) int {
	for _, p := range x.kept {
		if at <= p.to-p.from {
			return p.from + at
		}
		at -= p.to - p.from
	}
	return len(x.whole)
}
