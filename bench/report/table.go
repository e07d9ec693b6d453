// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchunit"
)

// subject is how a benchmark is shown.
type subject struct {
	name  string   // of the benchmark, to its first slash
	base  string   // who the others are compared with
	units []string // each has a line
}

// subjects are in the order of the table. A unit that a benchmark lacks is
// left out.
var subjects = []subject{
	{"Decision", "x-time-rate", []string{"ns/op"}},
	{"Mode", "x-time-rate", []string{"ns/op"}},
	{"Keys", "rwmutex-map", []string{"ns/op"}},
	{"HostMemory", "rwmutex-map", []string{"heap-B/key"}},
	{"Report", "cadence", []string{"ns/key"}},
	{"Pause", "", []string{"p50-ns", "p99-ns", "p99.99-ns", "max-ns"}},
	{"Decider", "cadence", []string{"ns/key", "fastest-ns/key"}},
	{"DeciderMemory", "cadence", []string{"heap-B/pair"}},
	{"Stall", "", []string{"p50-ns", "p99-ns", "p99.99-ns", "max-ns"}},
	{"Wire", "cadence", []string{"ns/key", "out-B/key", "back-B/key"}},
	{"Ring", "ringpop-go", []string{"ns/op"}},
}

// table is all medians, as Markdown.
func (r *results) table() string {
	var b strings.Builder
	b.WriteString("| case | by | median | ± | B | allocs | ratio |\n|---|---|--:|--:|--:|--:|--:|\n")
	for _, s := range subjects {
		for _, name := range r.names {
			if head, _, _ := strings.Cut(name, "/"); head != s.name {
				continue
			}
			for _, unit := range s.units {
				for _, by := range r.by[name] {
					r.line(&b, s, cell{name, by, unit})
				}
			}
		}
	}
	return b.String()
}

// line writes one, if there is something to write.
func (r *results) line(b *strings.Builder, s subject, at cell) {
	median, ok := r.median(at)
	if !ok {
		return
	}
	kind, per, _ := strings.Cut(at.unit, "/")
	beside := func(unit string) string {
		m, ok := r.median(cell{at.name, at.by, unit + "/" + per})
		if !ok || kind != "ns" {
			return ""
		}
		return count(m.Center)
	}
	bounds := median.PctRangeString()
	if bounds == "∞" { // too few rounds to say
		bounds = ""
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n",
		strings.ReplaceAll(at.name, "/", " "), at.by, show(median.Center, at.unit),
		bounds, beside("B"), beside("allocs"), r.ratio(at, cell{at.name, s.base, at.unit}))
}

// ratio is that of two medians; with a ~ if chance may explain what is between
// them.
func (r *results) ratio(at, base cell) string {
	ours, theirs := r.sample(at), r.sample(base)
	if ours == nil || theirs == nil {
		return ""
	}
	if at == base {
		return "1"
	}
	a, _ := r.median(at)
	b, _ := r.median(base)
	if b.Center == 0 {
		return ""
	}
	sign := ""
	if c := benchmath.AssumeNothing.Compare(theirs, ours); c.P > c.Alpha && len(c.Warnings) == 0 {
		sign = "~"
	}
	return sign + times(a.Center/b.Center)
}

// show writes x with its unit: 12.3ns, 12.3ns/key, 12.3ns p99, 12.3B/key out.
func show(x float64, unit string) string {
	which, unit, ok := strings.Cut(unit, "-")
	if !ok {
		which, unit = "", which
	}
	if rest, ok := strings.CutPrefix(unit, "ns"); ok {
		x, unit = x/1e9, "s"+rest
	}
	if strings.HasPrefix(unit, "allocs") {
		return count(x) + " " + unit
	}
	text := benchunit.Scale(x, benchunit.Decimal) + strings.TrimSuffix(unit, "/op")
	if which != "" {
		text += " " + which
	}
	return text
}

// count writes how many there are of a thing of which there may be none.
func count(x float64) string {
	switch {
	case x < 0.001:
		return "0"
	case x < 1:
		return fmt.Sprintf("%.3f", x)
	}
	return benchunit.Scale(x, benchunit.Decimal)
}

// times writes a ratio.
func times(x float64) string {
	switch {
	case x < 0.1:
		return fmt.Sprintf("%.3f", x)
	case x < 100:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
