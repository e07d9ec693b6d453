// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
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

// ablation is what each ingredient of elastic buys, as Markdown: of each
// figure the worst of all seeds.
func ablation(ctx context.Context, seeds int) (string, error) {
	t := newFigures("elastic with", cells, "over %<br>at worst")
	for _, v := range variants {
		// Under a Stateful algorithm of any name, hosts report early.
		const name = "variant"
		registry := algorithm.Builtin()
		if err := registry.Register(name, v.algorithm); err != nil {
			return "", err
		}
		_, inVain := v.algorithm.(patient) // reports count for nothing then
		err := t.add(ctx, v.name, seeds, sim.Options{Algorithm: name, Registry: registry}, func(c cell) bool {
			return !inVain || !strings.HasPrefix(c.title, "reports")
		}, v.atWorst())
		if err != nil {
			return "", err
		}
	}
	return t.String(), nil
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
