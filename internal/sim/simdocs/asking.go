// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/simplot"
	"github.com/headgate/headgate/internal/sim/world"
)

// whoAsks are the algorithms that the asking scenarios compare.
var whoAsks = []string{"request-weighted", "elastic", "exact", "auto"}

// askingView has the figures that these differ in.
var askingView = measure.View{Asks: true, Only: []string{
	"false rejects %", "over %", "reports /host/s", "asks /host/s", "waited %", "p50 ms", "p99 ms",
}}

// asking runs the scenarios of few events per host, under those of whoAsks that
// are chosen.
func asking(ctx context.Context, seeds int, chosen func(algorithm string) bool) ([]measure.Group, error) {
	var jobs []world.Job
	for _, name := range scenario.Names(scenario.Asking) {
		sc, err := scenario.Load(name)
		if err != nil {
			return nil, err
		}
		for _, a := range whoAsks {
			for seed := range seeds {
				if chosen(a) {
					jobs = append(jobs, world.Job{Scenario: sc, Options: world.Options{Algorithm: a, Seed: uint64(seed + 1)}})
				}
			}
		}
	}
	results, err := world.Sweep(ctx, jobs, nil)
	if err != nil {
		return nil, err
	}
	return measure.Wholes(measure.Groups(rows(results))), nil
}

// drawAsking draws the medians of groups, which are of that many seeds.
func drawAsking(dir string, seeds int, groups []measure.Group) error {
	note := fmt.Sprintf("The asking scenarios, medians of %d seeds: the fewer calls and the fewer false rejects, the better.", seeds)
	return simplot.SaveTradeoffs(filepath.Join(dir, "img", "asking.svg"), "What an ask buys", note, tradeoffs(groups))
}

// tradeoffs are the points of groups, a Tradeoff for each scenario.
func tradeoffs(groups []measure.Group) []simplot.Tradeoff {
	var all []simplot.Tradeoff
	for _, g := range groups {
		name := strings.TrimPrefix(g.Scenario, scenario.Asking+"-")
		if len(all) == 0 || all[len(all)-1].Name != name {
			all = append(all, simplot.Tradeoff{Name: name})
		}
		t := &all[len(all)-1]
		t.Points = append(t.Points, simplot.Point{
			Algorithm: g.Algorithm,
			Calls:     g.Median(func(r measure.Row) float64 { return r.ReportsPerHostS + r.AsksPerHostS }),
			Rejects:   g.Median(func(r measure.Row) float64 { return r.FalseRejectPct }),
		})
	}
	return all
}
