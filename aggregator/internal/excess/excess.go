// SPDX-License-Identifier: Apache-2.0

// Package excess says by how much hosts exceed the limits of each rule's keys, and how much
// that may be, as metrics. It knows no keys.
package excess

import (
	"cmp"
	"sync"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator/internal/account"
)

// Seen is what a look at all keys has found, by the key of their rule. Of the keys of a rule,
// those count whose hosts exceed the limit most, and may most.
type Seen map[string]excess

type excess struct{ over, bound float64 }

// Gauges are the metrics, by rule. Safe for concurrent use.
type Gauges struct {
	mu    sync.Mutex // protects rules
	scope tally.Scope
	rules map[string][2]tally.Gauge // over and bound, by key of the rule
}

// New returns the metrics, under scope's aggregator.
func New(scope tally.Scope) *Gauges {
	return &Gauges{scope: scope.SubScope("aggregator"), rules: make(map[string][2]tally.Gauge)}
}

// maxRules bounds the rules that have metrics of their own.
const maxRules = 10_000

// Note takes in the state of a key of rule.
func (s Seen) Note(rule string, state account.State) {
	if _, known := s[rule]; !known && len(s) >= maxRules {
		rule = "…"
	}
	e := s[rule]
	s[rule] = excess{max(e.over, state.Over), max(e.bound, state.Bound)}
}

// Show puts what was seen in the metrics. Rules without keys have 0.
func (x *Gauges) Show(seen Seen) {
	x.mu.Lock()
	defer x.mu.Unlock()

	for rule, e := range seen {
		g, ok := x.rules[rule]
		if !ok {
			if len(x.rules) > maxRules {
				continue
			}
			scope := x.scope.Tagged(map[string]string{"rule": cmp.Or(rule, "(none)")})
			g = [2]tally.Gauge{scope.Gauge("over_admitted"), scope.Gauge("over_admission_bound")}
			x.rules[rule] = g
		}
		g[0].Update(e.over)
		g[1].Update(e.bound)
	}
	for rule, g := range x.rules {
		if _, used := seen[rule]; !used {
			g[0].Update(0)
			g[1].Update(0)
		}
	}
}
