// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"sync/atomic"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// places counts the keys of each rule from which tokens are taken one by one:
// their names come from any program, and the rule's max_keys bounds them. A rule
// that is in force under later settings too has the same counter, which is safe
// for concurrent use.
type places map[place]*atomic.Int64

// place is for keys of the rule for this glob, under one of the names of a pool.
type place struct{ rule, name string }

func placeOf(rule *dynamicconfig.Rule, name string) place { return place{rule.Key, name} }

// newPlaces are those of snapshot, after those that were in force before.
func newPlaces(registry *algorithm.Registry, snapshot *dynamicconfig.Snapshot, before places) places {
	p := make(places)
	open := func(rule *dynamicconfig.Rule) {
		for _, name := range pooled {
			if rule.InFlight || !mentions(registry, rule, name) {
				continue
			}
			at := placeOf(rule, name)
			if p[at] = before[at]; p[at] == nil {
				p[at] = new(atomic.Int64)
			}
		}
	}
	rules := snapshot.Rules()
	for i := range rules {
		open(&rules[i])
	}
	if rule := snapshot.UnmatchedRule(); rule != nil {
		open(rule)
	}
	return p
}

// enter takes a place for a new key of rule; false if its max_keys are there.
func (p places) enter(rule *dynamicconfig.Rule, name string) bool {
	n := p[placeOf(rule, name)]
	if n == nil {
		return true
	}
	if n.Add(1) > int64(rule.MaxKeys) {
		n.Add(-1)
		return false
	}
	return true
}

// place is where k counts; nil if nowhere.
func (k *key) place() *atomic.Int64 {
	if k.rule == nil {
		return nil
	}
	name := algorithm.NameElastic
	switch u := k.account.(type) {
	case *asked:
		name = algorithm.NameAuto
		if u.always {
			name = algorithm.NameExact
		}
	case account.Pooled:
	default:
		return nil
	}
	return k.settings.places[placeOf(k.rule, name)]
}

// enter counts k, whatever max_keys says: it is there.
func (k *key) enter() {
	if n := k.place(); n != nil {
		n.Add(1)
	}
}

// leave gives k's place back.
func (k *key) leave() {
	if n := k.place(); n != nil {
		n.Add(-1)
	}
}
