// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/holding"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/internal/terms"
	"github.com/headgate/headgate/limiter/stage"
)

// State is what a Key decides by. It does not change once it is published, but
// for what is atomic: a change of rules makes another one.
//
// A host may have 100,000 of them, which are not in the processor's caches when they are used. What
// a decision needs lies together, at the beginning.
type State struct {
	plain *share.Rate // see Key.Plain

	bare   bool         // see Key.Bare
	idle   bool         // the key was not used recently, and only keeps its place
	Reason stage.Reason // why no token is to be had, if there is no Stage

	touched atomic.Bool // by what no part counts, since touchedAt has looked

	around *share.Rate // what the Stage of a bare State is around, if it is not plain; else nil

	// Holding has the Stage, or the Slots.
	holding.Holding

	used stage.Instant // in a way that no part counts; the Set's mu guards it

	rule *ruleState // nil if the Key has no Set

	// forward decides instead: the Key of this name that is live, or the
	// common one of a shared rule.
	forward *Key
}

// Terms are the rule's; nil is none.
func (st *State) Terms() *terms.Terms {
	if st.rule == nil {
		return nil
	}
	return st.rule.terms
}

// Costliest is the most tokens that the rule lets one event cost; infinite without a rule.
func (st *State) Costliest() float64 {
	if st.rule == nil {
		return math.Inf(1)
	}
	return st.rule.Rule.Costliest()
}

// Rule is the key of the rule that matched, and how many keys it may have; an
// empty one if none matched.
func (st *State) Rule() (key string, most int64) {
	if st.rule == nil {
		return "", 0
	}
	return st.rule.key(), st.rule.most()
}

// Config is the rule that matched; nil if none did. Callers do not change it.
func (st *State) Config() *dynamicconfig.Rule {
	if st.rule == nil || st.rule.unmatched() {
		return nil
	}
	return st.rule.Rule
}

// Owner stands for the key's owner, where it decided an event that the host's own
// tokens did not cover.
const Owner = "owner"

// By names what decided: the rule's fallback, or the algorithm that answers;
// empty if no rule does.
func (st *State) By(source stage.Source) string {
	rule := st.Config()
	switch {
	case st.Stage == nil || rule == nil:
		return ""
	case source == stage.ByFallback:
		return rule.Fallback.String()
	case source == stage.ByOwner:
		return Owner
	case st.rule.Answers < 0:
		return ""
	}
	return st.rule.Terms[st.rule.Answers].Algorithm
}

// Nothing reports whether the limit is zero, of the whole cluster if there is a rule.
func (st *State) Nothing(now stage.Instant) bool {
	limit := st.Level(now).Limit
	if rule := st.Config(); rule != nil {
		limit = rule.Limit
	}
	return limit <= 0
}

// Mode is the migration's; ModeNew if there is none.
func (st *State) Mode() dynamicconfig.Mode {
	if rule := st.Config(); rule != nil && rule.Migration != nil {
		return rule.Migration.Mode
	}
	return dynamicconfig.ModeNew
}

// live reports whether st decides itself.
func (st *State) live() bool { return st != nil && !st.idle && st.forward == nil }

// setPlain sets plain if the bucket alone decides, and bare if the Stage does.
func (st *State) setPlain(watched bool) {
	if st.bare = !watched && st.Has() && st.Stage != nil && st.Terms() == nil; st.bare && len(st.Subjects()) == 1 {
		if st.plain, _ = st.Stage.(*share.Rate); st.plain == nil {
			st.around = st.Subjects()[0].Rate
		}
	}
}

// Fetch reads what a decision of a bare State needs behind the Stage, so that the processor waits
// for both at the same time.
func (st *State) Fetch() {
	if st.around != nil {
		share.Fetch(st.around)
	}
}

// lastUsed is when a report last found new usage.
func (st *State) lastUsed() stage.Instant { return max(st.used, st.Used()) }

// forgettable reports whether nothing is lost by forgetting the key: no caller
// used it for idle_after, and its buckets are full. The Set's mu is held.
func (st *State) forgettable(now stage.Instant) bool {
	return now.Sub(st.lastUsed()) >= st.rule.Rule.IdleAfter && !st.touchedAt(now) && !st.unseen(now) && st.Full(now)
}

// touchedAt reports whether st was touched since it was last called, and counts that as use at now. The Set's mu
// is held.
func (st *State) touchedAt(now stage.Instant) bool {
	was := st.touched.Swap(false)
	if was {
		st.used = now
	}
	return was
}

// unseen reports whether there is usage that no report has found yet.
func (st *State) unseen(now stage.Instant) bool {
	return slices.ContainsFunc(st.Subjects(), func(p *report.Subject) bool { return p.HasUncounted(now) })
}

// touch notes that the key is used in a way that no part counts. It writes only what is news.
func (st *State) touch() {
	if !st.touched.Load() {
		st.touched.Store(true)
	}
}

// countDivergence counts how the two sides of a migration answered since the last
// time. The Set's mu is held.
func (st *State) countDivergence() {
	if m := st.Migration(); m != nil {
		d := m.Diverged()
		st.rule.usage.Diverged(d)
		st.rule.of.set.compared.add(st.rule.Rule, d)
	}
}

// copied is a copy of st, last used at used, to change before it is published. It counts as used,
// and is not plain.
func (st *State) copied(used stage.Instant) *State {
	next := &State{Holding: st.Holding, Reason: st.Reason, rule: st.rule, forward: st.forward, used: used}
	next.touched.Store(true)
	return next
}

// forwarded is what decides instead of st; st itself if it does not forward.
func (st *State) forwarded() *State {
	if st == nil || st.forward == nil {
		return st
	}
	return st.forward.state.Load()
}
