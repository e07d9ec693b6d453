// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/internal/terms"
	"github.com/headgate/headgate/limiter/internal/usage"
	"github.com/headgate/headgate/limiter/stage"
)

// settings are what all keys of a Set depend on. They do not change: a
// change of config or of hosts makes others.
type settings struct {
	rules *rules
	hosts int
}

// rules is a Snapshot with what the Set knows about each of its rules.
type rules struct {
	set      *Set
	snapshot *dynamicconfig.Snapshot
	none     dynamicconfig.Rule // of keys that no rule matches
	states   sync.Map           // *dynamicconfig.Rule to *ruleState

	// before are the rules that these replaced: what their keys used last is
	// counted later. Guarded by the Set's mu.
	before *rules
}

// maxUnmatched bounds the keys without a rule that a Set remembers.
const maxUnmatched = 10_000

func newRules(of *Set, snapshot *dynamicconfig.Snapshot) *rules {
	none := dynamicconfig.Rule{MaxKeys: maxUnmatched, IdleAfter: 5 * snapshot.Properties().UpdateInterval} // as a rule has by default
	return &rules{set: of, snapshot: snapshot, none: none}
}

// match returns the state of key's rule.
func (r *rules) match(key string) *ruleState {
	rule, ok := r.snapshot.Match(key)
	if !ok {
		rule = &r.none
	}
	if found, ok := r.states.Load(rule); ok {
		if found, ok := found.(*ruleState); ok {
			return found
		}
	}
	made := &ruleState{of: r, rule: rule}
	made.init()
	found, _ := r.states.LoadOrStore(rule, made)
	made, _ = found.(*ruleState) // nothing else is stored
	return made
}

// ruleState is what a Set knows of one rule under one Snapshot.
type ruleState struct {
	of     *rules
	rule   *dynamicconfig.Rule
	terms  *terms.Terms   // nil if there are none
	shares []*share.Terms // by algorithm, the old one first
	usage  usage.Rule

	// shared: all keys of the rule decide through the one that is its pattern.
	shared bool

	keys   atomic.Int64 // live and idle
	fallen int          // keys that use their fallback, while a report counts them; guarded by the Set's mu
	idle   *State       // what idle keys decide by
	full   *State       // what keys beyond max_keys decide by
}

func (a *ruleState) init() {
	a.idle = &State{idle: true, rule: a}
	if a.unmatched() {
		a.full = a.unmatchedState()
		return
	}
	a.full = &State{rule: a, Reason: stage.TooManyKeys}
	if a.rule.Shared { // if another rule has that key, each key decides alone
		found, _ := a.of.snapshot.Match(a.rule.Key)
		a.shared = found == a.rule
	}
	if a.rule.Bypassed() {
		a.full.Stage = bypassed{unlimited{}}
	} else if !a.rule.InFlight && answering(a.rule) >= 0 { // the mode disabled lets all pass
		a.terms = terms.Of(a.rule, a.of.set.reporter.Salt)
	}
	for i, name := range algorithms(a.rule) {
		a.shares = append(a.shares, a.of.set.shareTerms(a, name, i == answering(a.rule)))
	}
}

// refused counts a decision that is not granted; a may be nil.
func (a *ruleState) refused(reason stage.Reason, n int64, asked bool) {
	if a != nil {
		a.usage.Refused(reason, n, asked)
	}
}

// flush adds what was counted for all rules since the last time to m. The Set's
// mu is held.
func (r *rules) flush(m *usage.Metrics) {
	if r.before != nil {
		r.before.flush(m)
	}
	r.states.Range(func(_, v any) bool {
		if a, ok := v.(*ruleState); ok {
			m.Flush(a.key(), &a.usage)
		}
		return true
	})
}

// unmatched reports whether a is for keys that no rule matches.
func (a *ruleState) unmatched() bool { return a.rule == &a.of.none }

// unmatchedState decides for keys that no rule matches.
func (a *ruleState) unmatchedState() *State {
	if a.of.snapshot.Unmatched() == dynamicconfig.UnmatchedDeny {
		return &State{rule: a, Reason: stage.Unmatched}
	}
	return &State{rule: a, Stage: unlimited{}}
}

// most is how many keys may be live.
func (a *ruleState) most() int64 { return int64(a.rule.MaxKeys) }

// stale reports whether a key that decides by st, which has no parts, may
// decide by something else now: the rules have changed, or there is room.
func (a *ruleState) stale(st *State) bool {
	return a.of.set.settings.Load().rules != a.of || st.Reason == stage.TooManyKeys && a.keys.Load() < a.most()
}

// isCommon reports whether key is the one that all keys of a shared rule decide
// through.
func (a *ruleState) isCommon(key string) bool { return a.shared && a.rule.Key == key }

// Owner stands for the key's owner, where it decided an event that the host's own
// tokens did not cover.
const Owner = "owner"

// by names what decided: the rule's fallback, or the algorithm that answers;
// empty if no rule does.
func (a *ruleState) by(source stage.Source) string {
	switch {
	case a == nil || a.unmatched():
		return ""
	case source == stage.ByFallback:
		return a.rule.Fallback.String()
	case source == stage.ByOwner:
		return Owner
	}
	if i := answering(a.rule); i >= 0 {
		return a.shares[i].Algorithm
	}
	return ""
}

// key is the rule's; empty if there is none.
func (a *ruleState) key() string {
	if a == nil {
		return ""
	}
	return a.rule.Key
}

// algorithms that a rule wants, the old one first.
func algorithms(rule *dynamicconfig.Rule) []string {
	if m := rule.Migration; m != nil {
		return []string{m.From, m.To}
	}
	return []string{rule.Algorithm}
}

// answering is which of a rule's algorithms answers; below 0 if none does.
func answering(rule *dynamicconfig.Rule) int {
	if rule.Migration == nil {
		return 0
	}
	switch rule.Migration.Mode {
	case dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew:
		return 0
	case dynamicconfig.ModeNew, dynamicconfig.ModeNewShadowOld:
		return 1
	default:
		return -1
	}
}
