// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
)

// order is that of algorithms in tables.
var order = []string{
	"even", "drop-ratio", "request-weighted", "request-weighted-even-floor",
	"proportional-share", "fair-share", "elastic", "gossip", "exact", "auto", "redis",
}

// line is a row of a table: what one algorithm did in one scenario, or in all.
type line struct {
	scenario, algorithm string // of a summary, no scenario
	rest                string
}

// lines takes a table apart; header is its first two lines. The rows of a
// scenario follow each other, and only the first names it.
func lines(table string, byScenario bool) (header string, all []line) {
	scenario := ""
	for i, text := range strings.SplitAfter(table, "\n") {
		if i < 2 {
			header += text
			continue
		}
		_, rest, ok := strings.Cut(text, "| ")
		if !ok {
			continue
		}
		if byScenario {
			name, after, _ := strings.Cut(rest, "|")
			if name = strings.TrimSpace(name); name != "" {
				scenario = name
			}
			rest = strings.TrimPrefix(after, " ")
		}
		algorithm, rest, _ := strings.Cut(rest, " |")
		all = append(all, line{scenario, strings.Trim(algorithm, "`"), rest})
	}
	return header, all
}

// merge is old with the rows of next in place of its own, and beside them.
func merge(old, next string, byScenario bool) string {
	header, all := lines(old, byScenario)
	_, fresh := lines(next, byScenario)
	for _, l := range fresh {
		if i := slices.IndexFunc(all, l.same); i >= 0 {
			all[i] = l
			continue
		}
		at := 0 // before the first of the scenario that comes later
		for i, one := range all {
			if one.scenario < l.scenario || one.scenario == l.scenario && slices.Index(order, one.algorithm) < slices.Index(order, l.algorithm) {
				at = i + 1
			}
		}
		all = slices.Insert(all, at, l)
	}
	var b strings.Builder
	b.WriteString(header)
	last := ""
	for _, l := range all {
		b.WriteString("| ")
		switch {
		case !byScenario:
			b.WriteString("`" + l.algorithm + "`")
		case l.scenario == last:
			b.WriteString(" | " + l.algorithm)
		default:
			last = l.scenario
			b.WriteString(l.scenario + " | " + l.algorithm)
		}
		b.WriteString(" |" + l.rest)
	}
	return b.String()
}

func (l line) same(other line) bool {
	return l.scenario == other.scenario && l.algorithm == other.algorithm
}
