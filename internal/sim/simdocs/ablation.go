// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim"
)

// A variant is elastic with something switched off or turned up.
type variant struct {
	name      string
	algorithm algorithm.Algorithm
}

// nothing is next to it: zero would be the default.
const nothing = 1e-9

var variants = []variant{
	{"**as it comes**", algorithm.Elastic{}},
	{"by demand alone: no pool, no early reports", algorithm.Func(algorithm.Elastic{}.Share)},
	{"early reports are not answered", patient{algorithm.Elastic{}}},
	{"`Headroom` 1, not 1.1", algorithm.Elastic{Headroom: 1}},
	{"`Headroom` 2", algorithm.Elastic{Headroom: 2}},
	{"`Horizon` 20 ms, not 200 ms", algorithm.Elastic{Horizon: 20 * time.Millisecond}},
	{"`Horizon` 1 s", algorithm.Elastic{Horizon: time.Second}},
	{"`Part` 0.05, not 0.5", algorithm.Elastic{Part: 0.05}},
	{"`Part` 1", algorithm.Elastic{Part: 1}},
	{"`Starter` 0, not 0.25", algorithm.Elastic{Starter: nothing}},
	{"`Starter` 1", algorithm.Elastic{Starter: 1}},
	{"`Repay` 500 ms, not 3 s", algorithm.Elastic{Repay: 500 * time.Millisecond}},
	{"`Repay` never", algorithm.Elastic{Repay: 1000 * time.Hour}},
	{"`Crowding` 0, not 0.01", algorithm.Elastic{Crowding: nothing}},
	{"`Crowding` 0.5", algorithm.Elastic{Crowding: 0.5}},
}

// A cell is a figure of one scenario.
type cell struct {
	scenario, title string
	digits          int
	of              func(sim.Metrics) float64
	bad             func(float64) float64 // how far from good; nil: more is worse
}

func fromWhole(v float64) float64 { return math.Abs(v - 100) }

var (
	utilisation = func(m sim.Metrics) float64 { return m.UtilisationPct }
	falseReject = func(m sim.Metrics) float64 { return m.FalseRejectPct }
	over        = func(m sim.Metrics) float64 { return m.OverPct }
	settle      = func(m sim.Metrics) float64 { return m.SettleS }
	reports     = func(m sim.Metrics) float64 { return m.ReportsPerHostS }
)

var cells = []cell{
	{"steady-skew", "utilisation %", 1, utilisation, fromWhole},
	{"steady-skew", "reports /host/s", 2, reports, nil},
	{"moving-hotspot", "settle s", 1, settle, nil},
	{"moving-hotspot", "false rejects %", 2, falseReject, nil},
	{"burst-on-few", "false rejects %", 2, falseReject, nil},
	{"burst-to-the-brim", "false rejects %", 2, falseReject, nil},
	{"flash-crowd", "over %", 1, over, nil},
	{"flash-crowd", "reports /host/s", 2, reports, nil},
	{"rolling-restart", "utilisation %", 1, utilisation, fromWhole},
	{"rolling-restart", "over %", 1, over, nil},
	{"rolling-restart", "reports /host/s", 2, reports, nil},
}

// ablation is what each ingredient of elastic buys, as Markdown: of each
// figure the worst of all seeds.
func ablation(ctx context.Context, seeds int) (string, error) {
	var b strings.Builder
	b.WriteString("| elastic with |")
	for _, c := range cells {
		b.WriteString(" " + c.scenario + "<br>" + c.title + " |")
	}
	b.WriteString(" over %<br>at worst |\n|---|" + strings.Repeat("--:|", len(cells)+1) + "\n")
	for _, v := range variants {
		byScenario, err := v.run(ctx, seeds)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s |", v.name)
		_, answersLate := v.algorithm.(patient)
		for _, c := range cells {
			if answersLate && strings.HasPrefix(c.title, "reports") {
				b.WriteString(" – |") // hosts go on asking in vain
				continue
			}
			fmt.Fprintf(&b, " %.*f |", c.digits, c.worst(byScenario[c.scenario])+0) // no -0
		}
		b.WriteString(" " + v.atWorst() + " |\n")
	}
	return b.String(), nil
}

// atWorst is what 20 hosts may use beyond a limit of 1000/s and its burst in any
// 10 s, as it is proved; – if it is not.
func (v variant) atWorst() string {
	e, ok := v.algorithm.(algorithm.Elastic)
	if !ok {
		return "–"
	}
	const limit, hosts, window = 1000, 20, 10
	beyond := e.Overshoot(algorithm.Limit{Rate: limit, Burst: limit}, hosts, 3*time.Second)
	return fmt.Sprintf("%.1f", beyond/(limit*window)*100)
}

// run runs v in every scenario that cells name.
func (v variant) run(ctx context.Context, seeds int) (map[string][]*sim.Result, error) {
	// Under a Stateful algorithm of any name, hosts report early.
	const name = "variant"
	registry := algorithm.Builtin()
	if err := registry.Register(name, v.algorithm); err != nil {
		return nil, err
	}
	var jobs []sim.Job
	byScenario := make(map[string][]*sim.Result)
	for _, c := range cells {
		if _, ok := byScenario[c.scenario]; ok {
			continue
		}
		byScenario[c.scenario] = nil
		sc, err := sim.Load(c.scenario)
		if err != nil {
			return nil, err
		}
		for seed := range seeds {
			o := sim.Options{Algorithm: name, Registry: registry, Seed: uint64(seed + 1)}
			jobs = append(jobs, sim.Job{Scenario: sc, Options: o})
		}
	}
	results, err := sim.Sweep(ctx, jobs, nil)
	if err != nil {
		return nil, fmt.Errorf("elastic with %s: %w", v.name, err)
	}
	for _, r := range results {
		byScenario[r.Scenario] = append(byScenario[r.Scenario], r)
	}
	return byScenario, nil
}

// worst is c's worst figure.
func (c cell) worst(results []*sim.Result) float64 {
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
