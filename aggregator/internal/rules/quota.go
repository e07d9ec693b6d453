// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
)

// Quota counts the keys of one rule from which tokens are taken one by one: their names
// come from any program, and the rule's max_keys bounds them. A rule that is in force
// under later Settings too has the same Quota. A nil Quota counts nothing. It is safe
// for concurrent use.
type Quota struct{ keys atomic.Int64 }

// quotas are for keys of a rule, by its glob: one for the pool that answers, whatever its name, and one for
// what a migration measures.
type quotas map[counted]*Quota

type counted struct {
	glob     string
	measured bool
}

// newQuotas are those of all rules of s, after those that were in force before, which may be nil.
func (s *Settings) newQuotas(before *Settings) quotas {
	if before != nil {
		if all, ok := s.nextQuotas(before); ok {
			return all
		}
	}
	all := make(quotas)
	open := func(rule *dynamicconfig.Rule) {
		for _, at := range s.counts(rule) {
			if before != nil {
				all[at] = before.quotas[at]
			}
			if all[at] == nil {
				all[at] = new(Quota)
			}
		}
	}
	for rule := range s.Snapshot.Each() {
		open(rule)
	}
	open(s.Snapshot.UnmatchedRule())
	return all
}

// nextQuotas is newQuotas for the price of the rules that are not the same as before. ok is false where more than one
// rule may have a Quota of one name.
func (s *Settings) nextQuotas(before *Settings) (all quotas, ok bool) {
	if s.registry != before.registry || !slices.Equal(s.counts(s.Snapshot.UnmatchedRule()), before.counts(before.Snapshot.UnmatchedRule())) {
		return nil, false
	}
	gone, opened := make(map[counted]bool), make(map[counted]bool)
	for _, rule := range dynamicconfig.Fresh(before.Snapshot, s.Snapshot) {
		for _, at := range before.counts(rule) {
			gone[at] = true
		}
	}
	for _, rule := range dynamicconfig.Fresh(s.Snapshot, before.Snapshot) {
		for _, at := range s.counts(rule) {
			opened[at] = true
		}
	}
	if maps.Equal(gone, opened) {
		return before.quotas, true
	}
	all = maps.Clone(before.quotas)
	for at := range gone {
		if at.glob == unmatched {
			return nil, false
		}
		if !opened[at] {
			delete(all, at)
		}
	}
	for at := range opened {
		if all[at] == nil {
			all[at] = new(Quota)
		}
	}
	return all, true
}

// unmatched is the key of the rule of keys that no other rule matches. Another rule may have it too.
const unmatched = "*"

// counts are the Quotas that rule, which may be nil, has.
func (s *Settings) counts(rule *dynamicconfig.Rule) (all []counted) {
	if rule == nil || rule.InFlight {
		return nil
	}
	answering, other := s.named(rule)
	for _, name := range [...]string{answering, other} {
		plain, measured := dynamicconfig.Plain(name)
		if at := (counted{rule.Key, measured}); IsPooled(plain) && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// Quota counts the keys of rule under name, or measured as it; nil if none does.
func (s *Settings) Quota(rule *dynamicconfig.Rule, name string) *Quota {
	plain, _ := dynamicconfig.Plain(name)
	return s.quotas[counted{rule.Key, s.mentions(rule, dynamicconfig.Measured(plain))}]
}

// Enter counts a new key if most allows it.
func (q *Quota) Enter(most int) bool {
	if q != nil && q.keys.Add(1) > int64(most) {
		q.keys.Add(-1)
		return false
	}
	return true
}

// Add adds n to the number of keys, also beyond the bound: the keys exist already, or are
// gone.
func (q *Quota) Add(n int64) {
	if q != nil {
		q.keys.Add(n)
	}
}

// Keys is how many keys are counted.
func (q *Quota) Keys() int64 { return q.keys.Load() }
