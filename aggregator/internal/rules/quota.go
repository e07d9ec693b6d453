// SPDX-License-Identifier: Apache-2.0

package rules

import (
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

// newQuotas are those of all rules of s, after those that were in force before.
func (s *Settings) newQuotas(before quotas) quotas {
	all := make(quotas)
	open := func(rule *dynamicconfig.Rule) {
		answering, other := s.named(rule)
		for _, name := range [...]string{answering, other} {
			plain, measured := dynamicconfig.Plain(name)
			if rule.InFlight || !IsPooled(plain) {
				continue
			}
			at := counted{rule.Key, measured}
			if all[at] = before[at]; all[at] == nil {
				all[at] = new(Quota)
			}
		}
	}
	for rule := range s.Snapshot.Each() {
		open(rule)
	}
	if rule := s.Snapshot.UnmatchedRule(); rule != nil {
		open(rule)
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
