// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// settings are what all keys of a Group depend on. They do not change: a
// change of config or of hosts makes others.
type settings struct {
	rules *rules
	hosts int
}

// rules is a Snapshot with what the Group knows about each of its rules.
type rules struct {
	group     *Group
	snapshot  *dynamicconfig.Snapshot
	unmatched *ruleState
	states    sync.Map // *dynamicconfig.Rule to *ruleState

	// before are the rules that these replaced: what their keys used last is
	// counted later. Guarded by the Group's mu.
	before *rules
}

// maxUnmatched bounds the keys without a rule that a Group remembers.
const maxUnmatched = 10_000

func (g *Group) newRules(snapshot *dynamicconfig.Snapshot) *rules {
	r := &rules{group: g, snapshot: snapshot}
	r.unmatched = &ruleState{of: r}
	r.unmatched.init()
	return r
}

// match returns the state of key's rule.
func (r *rules) match(key string) *ruleState {
	rule, ok := r.snapshot.Match(key)
	if !ok {
		return r.unmatched
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

// ruleState is what a Group knows of one rule under one Snapshot.
type ruleState struct {
	of     *rules
	rule   *dynamicconfig.Rule // nil for keys that no rule matches
	terms  *terms              // nil if there are none
	shares []*share.Terms      // by algorithm, the old one first
	counts bucket.Usage        // of the parts; guarded by the Group's mu
	events ruleEvents

	// shared: all keys of the rule decide through the one that is its pattern.
	shared bool

	keys   atomic.Int64 // live and asleep
	asleep *state       // what sleeping keys decide by
	full   *state       // what keys beyond max_keys decide by
}

func (a *ruleState) init() {
	a.asleep = &state{asleep: true, rule: a}
	if a.rule == nil {
		a.full = a.unmatchedState()
		return
	}
	a.full = &state{rule: a, reason: stage.TooManyKeys}
	if a.rule.Shared { // if another rule has that key, each key decides alone
		found, _ := a.of.snapshot.Match(a.rule.Key)
		a.shared = found == a.rule
	}
	a.terms = newTerms(a.rule, a.of.group)
	for i, name := range algorithms(a.rule) {
		a.shares = append(a.shares, a.of.group.shareTerms(a, name, answers(a.rule, i)))
	}
}

// unmatchedState decides for keys that no rule matches.
func (a *ruleState) unmatchedState() *state {
	if a.of.snapshot.Unmatched() == dynamicconfig.UnmatchedDeny {
		return &state{rule: a, reason: stage.Unmatched}
	}
	return &state{rule: a, stage: unlimited{}}
}

// most is how many keys may be live.
func (a *ruleState) most() int64 {
	if a.rule == nil {
		return maxUnmatched
	}
	return int64(a.rule.MaxKeys)
}

// stale reports whether a key that decides by st, which has no parts, may
// decide by something else now: the rules have changed, or there is room.
func (a *ruleState) stale(st *state) bool {
	return a.of.group.settings.Load().rules != a.of || st.reason == stage.TooManyKeys && a.keys.Load() < a.most()
}

// isCommon reports whether key is the one that all keys of a shared rule decide
// through.
func (a *ruleState) isCommon(key string) bool { return a.shared && a.rule.Key == key }

// by names what decided: the rule's fallback, or the algorithm that answers;
// empty if no rule does. An owner that decides under auto is as exact as under
// exact, and a host that does goes by its part as under elastic.
func (a *ruleState) by(source stage.Source) string {
	switch {
	case a == nil || a.rule == nil:
		return ""
	case source == stage.ByFallback:
		return a.rule.Fallback.String()
	case source == stage.ByOwner:
		return "exact"
	}
	for i, name := range algorithms(a.rule) {
		if !answers(a.rule, i) {
			continue
		}
		if name == Auto {
			return "elastic"
		}
		return name
	}
	return ""
}

// key is the rule's; empty if there is none.
func (a *ruleState) key() string {
	if a == nil || a.rule == nil {
		return ""
	}
	return a.rule.Key
}

// idleAfter is the rule's; keys without a rule are kept for as long as they
// would be by default.
func (a *ruleState) idleAfter() time.Duration {
	if a.rule == nil {
		return 5 * a.of.snapshot.Properties().UpdateInterval
	}
	return a.rule.IdleAfter
}

// algorithms that a rule wants, the old one first.
func algorithms(rule *dynamicconfig.Rule) []string {
	if m := rule.Migration; m != nil {
		return []string{m.From, m.To}
	}
	return []string{rule.Algorithm}
}

// answers reports whether the limiter under algorithm i of a rule answers.
func answers(rule *dynamicconfig.Rule, i int) bool {
	if rule.Migration == nil {
		return true
	}
	switch rule.Migration.Mode {
	case dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew:
		return i == 0
	case dynamicconfig.ModeNew, dynamicconfig.ModeNewShadowOld:
		return i == 1
	default:
		return false
	}
}

// terms are what a rule says of one event beside the limit. nil is nothing.
type terms struct {
	longest   time.Duration // that an event waits
	costliest float64

	refuses uint64        // of 2⁶⁴ events over the limit, how many are refused
	salt    uint64        // of the coin that decides which
	over    atomic.Uint64 // events over the limit
}

// refusesAll is a limit that is enforced in full.
const refusesAll = math.MaxUint64

func newTerms(rule *dynamicconfig.Rule, g *Group) *terms {
	if rule.InFlight || !answers(rule, 0) && !answers(rule, 1) { // the mode disabled lets all pass
		return nil
	}
	t := &terms{
		longest: stage.Forever, costliest: math.Inf(1), refuses: refusesAll,
	}
	if rule.MaxWait != 0 {
		t.longest = max(rule.MaxWait, 0)
	}
	if rule.MaxCost > 0 || rule.MaxDebt > 0 {
		t.costliest = rule.Costliest()
	}
	if part := rule.Enforced(); part < 1 {
		t.refuses, t.salt = uint64(part*(1<<64)), g.reporter.Salt()
	}
	if t.longest == stage.Forever && rule.MaxDebt <= 0 && math.IsInf(t.costliest, 1) && t.refuses == refusesAll {
		return nil
	}
	return t
}

// apply returns how long an event of cost n may wait if its caller would wait
// for longest, or why it is refused.
func (t *terms) apply(n int64, longest time.Duration) (wait time.Duration, reason stage.Reason) {
	switch {
	case n < 0:
		return 0, stage.InvalidCost
	case t == nil:
		return longest, stage.Granted
	case float64(n) > t.costliest:
		return 0, stage.TooCostly
	}
	return min(longest, t.longest), stage.Granted
}

// letsPass reports whether an event that was refused for reason may happen all
// the same. Its chance is a hash of how many such events there were, so that
// the same events meet the same fate.
func (t *terms) letsPass(reason stage.Reason) bool {
	if t == nil || t.refuses == refusesAll || reason == stage.InvalidCost || reason == stage.Canceled {
		return false
	}
	return bucket.Mix(t.over.Add(1)+t.salt) >= t.refuses
}

// wait is the longest that an event may wait.
func (t *terms) wait() time.Duration {
	if t == nil {
		return stage.Forever
	}
	return t.longest
}
