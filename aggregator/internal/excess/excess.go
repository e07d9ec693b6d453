// SPDX-License-Identifier: Apache-2.0

// Package excess says by how much hosts exceed the limits of each rule's keys, and how much that
// may be, as metrics. It knows no keys. One lock guards all of it.
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

// maxRules bounds the rules that have metrics of their own. They keep them when the rules
// are gone, because exporters have no way to withdraw a metric. Later rules share others.
const maxRules = 10_000

// others is the name under which the metrics of later rules are.
const others = "…"

// Note takes in the state of a key of rule.
func (s Seen) Note(rule string, state account.State) {
	s.note(rule, excess{state.Over, state.Bound})
}

func (s Seen) note(rule string, e excess) {
	before := s[rule]
	s[rule] = excess{max(before.over, e.over), max(before.bound, e.bound)}
}

// Show puts what was seen in the metrics. Rules without keys have 0.
func (x *Gauges) Show(seen Seen) {
	x.mu.Lock()
	defer x.mu.Unlock()

	shown := make(Seen, len(seen))
	for rule, e := range seen {
		shown.note(x.nameOf(rule), e)
	}
	for rule, g := range x.rules {
		e := shown[rule]
		g[0].Update(e.over)
		g[1].Update(e.bound)
	}
}

// nameOf returns the name under which the metrics of rule are, and makes them if there are
// none. The caller holds x.mu.
func (x *Gauges) nameOf(rule string) string {
	if _, ok := x.rules[rule]; !ok && len(x.rules) >= maxRules {
		rule = others
	}
	if _, ok := x.rules[rule]; !ok {
		scope := x.scope.Tagged(map[string]string{"rule": cmp.Or(rule, "(none)")})
		x.rules[rule] = [2]tally.Gauge{scope.Gauge("over_admitted"), scope.Gauge("over_admission_bound")}
	}
	return rule
}
