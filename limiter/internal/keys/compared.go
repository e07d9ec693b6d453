// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"maps"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// compared is how the two sides of migrations answered, for all keys of a rule: a key that
// is not used any more keeps no counts of its own.
type compared map[step]stage.Divergence

// step is one mode of the migration of one rule. Tokens and slots are not added up.
type step struct {
	rule     string
	inFlight bool
	dynamicconfig.Migration
}

func stepOf(rule *dynamicconfig.Rule) step { return step{rule.Key, rule.InFlight, *rule.Migration} }

// add counts d for a rule that migrates.
func (c compared) add(rule *dynamicconfig.Rule, d stage.Divergence) {
	if d != (stage.Divergence{}) {
		at := stepOf(rule)
		c[at] = c[at].Plus(d)
	}
}

// keep forgets all steps but those of the rules of s.
func (c compared) keep(s *dynamicconfig.Snapshot) {
	if len(c) == 0 {
		return
	}
	now := make(map[step]bool)
	for rule := range s.Each() {
		if rule.Migration != nil {
			now[stepOf(rule)] = true
		}
	}
	maps.DeleteFunc(c, func(s step, _ stage.Divergence) bool { return !now[s] })
}

// Compared calls f with each rule of s whose migration has compared something in its mode, as the
// latest report has found it.
func Compared(s *Set, f func(rule string, d stage.Divergence)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for at, d := range s.compared {
		f(at.rule, d)
	}
}
