// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"strings"
)

// goal is a figure that headgate is to reach: a median, or one divided by
// another.
type goal struct {
	what string
	name string
	by   []string // the goal is for each of them
	unit string

	// over is what to divide by: its empty fields are those above. The zero
	// cell: nothing.
	over cell

	bound   float64
	atLeast bool // else at most
}

var (
	ours     = []string{"request-weighted", "elastic"}
	headgate = []string{"headgate"}
	bare     = cell{by: "x-time-rate"}
	locked   = cell{by: "rwmutex-map"}
)

// wanted are all goals. A name that nothing has been measured under is shown
// as not measured.
var wanted = []goal{
	{what: "one key, serial ÷ x/time/rate", name: "Decision/do=allow/mode=serial", by: ours, unit: "ns/op", over: bare, bound: 0.65},
	{what: "one key, 2 cores ÷ x/time/rate", name: "Decision/do=allow/mode=parallel", by: ours, unit: "ns/op", over: bare, bound: 0.6},
	{what: "one key, allocations", name: "Decision/do=allow/mode=serial", by: ours, unit: "allocs/op"},
	{what: "old-shadow-new, serial ÷ x/time/rate", name: "Mode/stage=old-shadow-new/mode=serial", by: headgate, unit: "ns/op", over: bare, bound: 1.1},
	{what: "new-shadow-old, serial ÷ x/time/rate", name: "Mode/stage=new-shadow-old/mode=serial", by: headgate, unit: "ns/op", over: bare, bound: 1.1},
	{what: "old-shadow-new, 2 cores ÷ x/time/rate", name: "Mode/stage=old-shadow-new/mode=parallel", by: headgate, unit: "ns/op", over: bare, bound: 1.1},
	{what: "new-shadow-old, 2 cores ÷ x/time/rate", name: "Mode/stage=new-shadow-old/mode=parallel", by: headgate, unit: "ns/op", over: bare, bound: 1.1},
	{what: "with a shadow, allocations", name: "Mode/stage=old-shadow-new/mode=serial", by: headgate, unit: "allocs/op"},
	{what: "100,000 keys, serial ÷ RWMutex map of x/time/rate", name: "Keys/keys=100000/mode=serial", by: ours, unit: "ns/op", over: locked, bound: 1.3},
	{what: "100,000 keys, 2 cores ÷ RWMutex map of x/time/rate", name: "Keys/keys=100000/mode=parallel", by: ours, unit: "ns/op", over: locked, bound: 1.3},
	{what: "a host's report of 100,000 keys", name: "Report/keys=100000", by: ours, unit: "ns/key", bound: 300},
	{what: "a host's report of 100,000 keys, allocations", name: "Report/keys=100000", by: ours, unit: "allocs/key", bound: 0.1},
	{what: "p99 of a decision while 100,000 keys are reported ÷ quiet: no pause", name: "Pause/keys=100000/while=report", by: headgate, unit: "p99-ns", over: cell{name: "Pause/keys=100000/while=quiet"}, bound: 1.5},
	{what: "a host's memory per idle key", name: "HostMemory/keys=100000/state=idle", by: ours, unit: "heap-B/key", bound: 200},
	{what: "decider, 10,000 keys of 100 hosts", name: "Decider/keys=10000/hosts=100/mode=serial", by: ours, unit: "ns/key", bound: 300},
	{what: "decider, 10,000 keys of 1,000 hosts", name: "Decider/keys=10000/hosts=1000/mode=serial", by: ours, unit: "ns/key", bound: 300},
	{what: "decider, 10,000 keys of 5,000 hosts (needs `PAIRS=50000000`)", name: "Decider/keys=10000/hosts=5000/mode=serial", by: ours, unit: "ns/key", bound: 300},
	{what: "decider, 100 keys: 5,000 hosts ÷ 10 hosts", name: "Decider/keys=100/hosts=5000/mode=serial", by: ours, unit: "ns/key", over: cell{name: "Decider/keys=100/hosts=10/mode=serial"}, bound: 1.5},
	{what: "decider, 10,000 keys: 1,000 hosts ÷ 10 hosts", name: "Decider/keys=10000/hosts=1000/mode=serial", by: ours, unit: "ns/key", over: cell{name: "Decider/keys=10000/hosts=10/mode=serial"}, bound: 1.5},
	{what: "decider, allocations", name: "Decider/keys=10000/hosts=100/mode=serial", by: ours, unit: "allocs/key"},
	{what: "decider, 10,000 keys of 100 hosts: one core ÷ two", name: "Decider/keys=10000/hosts=100/mode=serial", by: ours, unit: "ns/key", over: cell{name: "Decider/keys=10000/hosts=100/mode=parallel"}, bound: 1.7, atLeast: true},
	{what: "decider, 100 keys of 100 hosts: one core ÷ two", name: "Decider/keys=100/hosts=100/mode=serial", by: ours, unit: "ns/key", over: cell{name: "Decider/keys=100/hosts=100/mode=parallel"}, bound: 1.7, atLeast: true},
	{what: "decider's memory per key and host, 100 hosts per key", name: "DeciderMemory/keys=1000/hosts=100", by: ours, unit: "heap-B/pair", bound: 64},
	{what: "p99 of a report of one key beside reports of 10,000 ÷ a key of those: no stall", name: "Stall/keys=10000/while=report", by: headgate, unit: "p99-ns", over: cell{name: "Decider/keys=10000/hosts=100/mode=serial", by: "request-weighted", unit: "ns/key"}, bound: 100},
	{what: "wire, a key of 24 bytes out", name: "Wire/keys=10000/step=all", by: ours, unit: "out-B/key", bound: 32},
	{what: "wire, a key back", name: "Wire/keys=10000/step=all", by: ours, unit: "back-B/key", bound: 12},
	{what: "wire, the four steps of the codec", name: "Wire/keys=10000/step=all", by: ours, unit: "ns/key", bound: 250},
	{what: "wire, allocations", name: "Wire/keys=10000/step=all", by: ours, unit: "allocs/key", bound: 0.1},
	{what: "ring, lookup at 1,000 hosts", name: "Ring/do=lookup/hosts=1000/mode=serial", by: headgate, unit: "ns/op", bound: 90},
	{what: "ring, lookup, allocations", name: "Ring/do=lookup/hosts=1000/mode=serial", by: headgate, unit: "allocs/op"},
	{what: "ring, add one host to 1,000", name: "Ring/do=add/hosts=1000", by: headgate, unit: "ns/op", bound: 2e6},
}

// goals is what was wanted and what was measured, as Markdown.
func (r *results) goals() string {
	var b strings.Builder
	b.WriteString("| goal | bound | measured | |\n|---|--:|--:|---|\n")
	for _, g := range wanted {
		r.goal(&b, g)
	}
	return b.String()
}

func (r *results) goal(b *strings.Builder, g goal) {
	var measured []string
	met := true
	for _, by := range g.by {
		x, ok := r.reached(g, by)
		if !ok {
			continue
		}
		met = met && (g.atLeast && x >= g.bound || !g.atLeast && x <= g.bound)
		text := g.figure(x)
		if len(g.by) > 1 {
			text = by + " " + text
		}
		measured = append(measured, text)
	}
	verdict, sign := "met", "≤"
	switch {
	case len(measured) == 0:
		verdict = "not measured"
	case !met:
		verdict = "**missed**"
	}
	if g.atLeast {
		sign = "≥"
	}
	fmt.Fprintf(b, "| %s | %s %s | %s | %s |\n", g.what, sign, g.figure(g.bound), strings.Join(measured, ", "), verdict)
}

// reached is the figure of one of g's; false if something was not measured.
func (r *results) reached(g goal, by string) (float64, bool) {
	of, ok := r.median(cell{g.name, by, g.unit})
	if g.over == (cell{}) || !ok {
		return of.Center, ok
	}
	over, ok := r.median(cell{cmp.Or(g.over.name, g.name), cmp.Or(g.over.by, by), cmp.Or(g.over.unit, g.unit)})
	return of.Center / over.Center, ok && over.Center > 0
}

// figure writes x in g's unit.
func (g goal) figure(x float64) string {
	if g.over != (cell{}) {
		return times(x) + "×"
	}
	return show(x, g.unit)
}
