// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/world"
)

// A cell is a figure of one scenario.
type cell struct {
	scenario, title string
	digits          int
	of              func(measure.Metrics) float64
	bad             func(float64) float64 // how far from good; nil: more is worse
}

func fromWhole(v float64) float64 { return math.Abs(v - 100) }

var (
	utilisation = func(m measure.Metrics) float64 { return m.UtilisationPct }
	falseReject = func(m measure.Metrics) float64 { return m.FalseRejectPct }
	over        = func(m measure.Metrics) float64 { return m.OverPct }
	settle      = func(m measure.Metrics) float64 { return m.SettleS }
	calls       = func(m measure.Metrics) float64 { return m.ReportsPerHostS + m.AsksPerHostS }
)

var cells = []cell{
	{"steady-skew", "utilisation %", 1, utilisation, fromWhole},
	{"steady-skew", "calls /host/s", 2, calls, nil},
	{"moving-hotspot", "settle s", 1, settle, nil},
	{"moving-hotspot", "false rejects %", 2, falseReject, nil},
	{"burst-on-few", "false rejects %", 2, falseReject, nil},
	{"burst-to-the-brim", "false rejects %", 2, falseReject, nil},
	{"flash-crowd", "over %", 1, over, nil},
	{"flash-crowd", "calls /host/s", 2, calls, nil},
	{"rolling-restart", "utilisation %", 1, utilisation, fromWhole},
	{"rolling-restart", "over %", 1, over, nil},
	{"rolling-restart", "calls /host/s", 2, calls, nil},
}

// figures is a table in Markdown: a line for each algorithm, a column for each
// cell, and what else a line has to say.
type figures struct {
	strings.Builder

	cells []cell
}

func newFigures(first string, cells []cell, more ...string) *figures {
	f := &figures{cells: cells}
	titles := []string{first}
	for _, c := range cells {
		titles = append(titles, c.scenario+"<br>"+c.title)
	}
	f.line(append(titles, more...))
	f.WriteString("|---|" + strings.Repeat("--:|", len(cells)+len(more)) + "\n")
	return f
}

func (f *figures) line(texts []string) { f.WriteString("| " + strings.Join(texts, " | ") + " |\n") }

// add runs all scenarios under o with that many seeds, and adds a line of the
// worst figures.
func (f *figures) add(ctx context.Context, name string, seeds int, o world.Options, more ...string) error {
	results, err := f.run(ctx, seeds, o)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	texts := []string{name}
	for _, c := range f.cells {
		texts = append(texts, fmt.Sprintf("%.*f", c.digits, c.worst(results[c.scenario])+0)) // +0: no -0
	}
	f.line(append(texts, more...))
	return nil
}

// run runs every scenario that the cells name.
func (f *figures) run(ctx context.Context, seeds int, o world.Options) (map[string][]*measure.Result, error) {
	var jobs []world.Job
	byScenario := make(map[string][]*measure.Result)
	for _, c := range f.cells {
		if _, ok := byScenario[c.scenario]; ok {
			continue
		}
		byScenario[c.scenario] = nil
		sc, err := scenario.Load(c.scenario)
		if err != nil {
			return nil, err
		}
		for seed := range seeds {
			o.Seed = uint64(seed + 1)
			jobs = append(jobs, world.Job{Scenario: sc, Options: o})
		}
	}
	results, err := world.Sweep(ctx, jobs, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		byScenario[r.Scenario] = append(byScenario[r.Scenario], r)
	}
	return byScenario, nil
}

// worst is c's worst figure.
func (c cell) worst(results []*measure.Result) float64 {
	bad := c.bad
	if bad == nil {
		bad = func(v float64) float64 { return v }
	}
	worst := math.NaN()
	for _, r := range results {
		if v := c.of(r.Whole().Metrics); math.IsNaN(worst) || bad(v) > bad(worst) {
			worst = v
		}
	}
	return worst
}
