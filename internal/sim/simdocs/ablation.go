// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/world"
)

// A variant is elastic with something switched off or turned up.
type variant struct {
	name      string
	algorithm algorithm.Algorithm
	patient   bool // no early reports
}

// nothing is next to it: zero would be the default.
const nothing = 1e-9

// byDemand divides averages of demand.
var byDemand = algorithm.Algorithm{
	Account: algorithm.AccountAverage,
	Weigher: algorithm.Weigher{Weigh: algorithm.RequestWeighted, Form: algorithm.FormDemand},
}

// pool divides a pool by demand, with parameters.
func pool(parameters algorithm.Elastic) algorithm.Algorithm {
	a := byDemand
	a.Account, a.Elastic = algorithm.AccountPool, parameters
	return a
}

var variants = []variant{
	{"**as it comes**", pool(algorithm.Elastic{}), false},
	{"by demand alone: no pool, no early reports", byDemand, false},
	{"no early reports", pool(algorithm.Elastic{}), true},
	{"`Overcommit` 0, not 0.5", pool(algorithm.Elastic{Overcommit: nothing}), false},
	{"`Overcommit` 0.25", pool(algorithm.Elastic{Overcommit: 0.25}), false},
	{"`Overcommit` 1", pool(algorithm.Elastic{Overcommit: 1}), false},
	{"`Horizon` 20 ms, not 200 ms", pool(algorithm.Elastic{Horizon: 20 * time.Millisecond}), false},
	{"`Horizon` 1 s", pool(algorithm.Elastic{Horizon: time.Second}), false},
	{"`Repay` 500 ms, not 3 s", pool(algorithm.Elastic{Repay: 500 * time.Millisecond}), false},
	{"`Repay` never", pool(algorithm.Elastic{Repay: 1000 * time.Hour}), false},
}

// ablation is what each ingredient of elastic buys, as Markdown: of each
// figure the worst of all seeds.
func ablation(ctx context.Context, seeds int, _ func(algorithm string) bool) (string, error) {
	t := newFigures("elastic with", cells, "over %<br>at worst")
	for _, v := range variants {
		// Under the pool by any name, hosts report early.
		const name = "variant"
		registry := algorithm.Builtin()
		if err := registry.Add(name, v.algorithm); err != nil {
			return "", err
		}
		err := t.add(ctx, v.name, seeds, world.Options{Algorithm: name, Registry: registry, Patient: v.patient}, v.atWorst())
		if err != nil {
			return "", err
		}
	}
	return t.String(), nil
}

// atWorst is what 20 hosts may use beyond a limit of 1000/s and its burst in any
// 10 s, as it is proved; – if it is not.
func (v variant) atWorst() string {
	if v.algorithm.Account != algorithm.AccountPool {
		return "–"
	}
	const limit, hosts, window = 1000, 20, 10
	beyond := v.algorithm.Elastic.Overshoot(algorithm.Limit{Rate: limit, Burst: limit}, hosts, 3*time.Second)
	return fmt.Sprintf("%.1f", beyond/(limit*window)*100)
}
