// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"hash/fnv"
	"io"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/holding"
	"github.com/headgate/headgate/limiter/internal/terms"
	"github.com/headgate/headgate/limiter/internal/tracing"
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
	replaced chan struct{}      // closed once other rules are in force
	number   uint64             // how many rules there were before
}

// maxUnmatched bounds the keys without a rule that a Set remembers.
const maxUnmatched = 10_000

func newRules(of *Set, number uint64, snapshot *dynamicconfig.Snapshot) *rules {
	none := dynamicconfig.Rule{MaxKeys: maxUnmatched, IdleAfter: 5 * snapshot.Properties().UpdateInterval} // as a rule has by default
	return &rules{set: of, number: number, snapshot: snapshot, none: none, replaced: make(chan struct{})}
}

func (r *rules) properties() dynamicconfig.Properties { return r.snapshot.Properties() }

// match returns the state of key's rule.
func (r *rules) match(key string) *ruleState {
	rule, ok := r.snapshot.Match(key)
	if !ok {
		rule = &r.none
	}
	return r.of(rule)
}

// of returns the state of one of r's rules, or of none.
func (r *rules) of(rule *dynamicconfig.Rule) *ruleState {
	if found, ok := r.states.Load(rule); ok {
		if found, ok := found.(*ruleState); ok {
			return found
		}
	}
	made := &ruleState{of: r, usage: r.set.metrics.Rule(rule.Key), Plan: holding.Plan{Rule: rule, Answers: rule.Answering()}}
	made.init()
	found, _ := r.states.LoadOrStore(rule, made)
	made, _ = found.(*ruleState) // nothing else is stored
	return made
}

// salt is another number for each rule, and for each time that it comes into force. With the
// same seed it is the same, in whichever order rules are used.
func (r *rules) salt(rule *dynamicconfig.Rule) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, rule.Key)
	return bucket.Mix(h.Sum64() ^ bucket.Mix(r.set.seed+r.number))
}

// ruleState is what a Set knows of one rule under one Snapshot.
type ruleState struct {
	holding.Plan // with no Terms if no rule matches

	of    *rules
	terms *terms.Terms // nil if there are none
	usage *usage.Rule

	// shared: all keys of the rule decide through the one that is its pattern.
	shared bool

	keys atomic.Int64 // live and idle
	idle *State       // what idle keys decide by
	full *State       // what keys beyond max_keys decide by
}

func (a *ruleState) init() {
	a.idle = &State{idle: true, rule: a}
	if a.unmatched() {
		a.full = &State{rule: a, Holding: holding.Holding{Stage: holding.Unlimited{}}}
		if a.of.snapshot.Unmatched() == dynamicconfig.UnmatchedDeny {
			a.full = &State{rule: a, Reason: stage.Unmatched}
		}
		return
	}
	a.full = &State{rule: a, Reason: stage.TooManyKeys}
	if a.Rule.Shared { // if another rule has that key, each key decides alone
		found, _ := a.of.snapshot.Match(a.Rule.Key)
		a.shared = found == a.Rule
	}
	switch {
	case a.Rule.Bypassed():
		a.full.Stage = holding.Bypassed{Stage: holding.Unlimited{}}
	case a.Answers < 0: // the mode disabled lets all pass
		a.full.Stage = holding.Unlimited{}
	case !a.Rule.InFlight:
		a.terms = terms.Of(a.Rule, a.of.salt(a.Rule))
	}
	for i, name := range a.Rule.Algorithms() {
		a.Terms = append(a.Terms, a.of.set.shareTerms(a, name, i == a.Answers))
	}
	a.MarkMeasured()
}

// unmatched reports whether a is for keys that no rule matches.
func (a *ruleState) unmatched() bool { return a.Rule == &a.of.none }

// limits reports whether a limits anything now.
func (a *ruleState) limits() bool { return !a.unmatched() && !a.open() }

// open reports whether a lets everything through.
func (a *ruleState) open() bool { return a.full.Stage != nil }

// most is how many keys may be live.
func (a *ruleState) most() int64 { return int64(a.Rule.MaxKeys) }

// stale reports whether a key that decides by st, which has no parts, may
// decide by something else now: the rules have changed, or there is room.
func (a *ruleState) stale(st *State) bool {
	return a.of.set.settings.Load().rules != a.of || st.Reason == stage.TooManyKeys && a.keys.Load() < a.most()
}

// isCommon reports whether key is the one that all keys of a shared rule decide
// through.
func (a *ruleState) isCommon(key string) bool { return a.shared && a.Rule.Key == key }

// trace remembers a decision about a key of a, if the key is traced, or a is shared and its pattern is.
func (a *ruleState) trace(key string, d tracing.Decided) {
	traces := &a.of.set.traces
	traces.Add(key, d)
	if a.shared && !a.isCommon(key) {
		traces.Add(a.key(), d)
	}
}

// key is the rule's; empty if there is none.
func (a *ruleState) key() string {
	if a == nil {
		return ""
	}
	return a.Rule.Key
}
