// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/internal/terms"
	"github.com/headgate/headgate/limiter/stage"
)

// State is what a Key decides by. It does not change once it is published, but
// for what is atomic: a change of rules makes another one.
type State struct {
	// plain: see Key.Plain.
	plain *share.Rate

	// Stage is what tokens come from, and Slots what is acquired. Without a
	// Stage, no token is to be had, because of Reason.
	Stage  stage.Stage
	Slots  stage.Slots
	Reason stage.Reason

	// idle: nobody used the key lately, and it only keeps its place.
	idle bool

	// auto: the Stage is a *remote.Auto with a grant, which alone decides.
	auto bool

	touched atomic.Bool // since the last report, if there are no parts
	used    stage.Instant

	rule *ruleState // nil if the Key has no Set

	// forward decides instead: the Key of this name that is live, or the
	// common one of a shared rule.
	forward *Key

	// pair is what is reported: one part, or the old and the new of a migration.
	pair [2]*report.Subject

	migration *migration // nil if none is under way
	remains   *remains   // of earlier States; nil is nothing
}

// parts are what is reported, the old one first.
func (st *State) parts() []*report.Subject {
	switch {
	case st.pair[0] == nil:
		return nil
	case st.pair[1] == nil:
		return st.pair[:1]
	default:
		return st.pair[:]
	}
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
	if st.rule == nil || st.rule.rule == nil {
		return math.Inf(1)
	}
	return st.rule.rule.Costliest()
}

// stageOf is a part as a stage; nil for slots.
func stageOf(s *report.Subject) stage.Stage {
	of, _ := s.Part().(stage.Stage)
	return of
}

// slotsOf is a part as slots; nil for a rate.
func slotsOf(s *report.Subject) *share.Slots {
	of, _ := s.Part().(*share.Slots)
	return of
}

// Level is what st applies at now.
func (st *State) Level(now stage.Instant) stage.Level {
	switch {
	case st.Slots != nil:
		return st.Slots.Level(now)
	case st.Stage != nil:
		return st.Stage.Level(now)
	default:
		return stage.Level{}
	}
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
	return st.rule.rule
}

// By names what decided: the rule's fallback, or the algorithm that answers;
// empty if no rule does.
func (st *State) By(source stage.Source) string {
	if st.Stage == nil {
		return ""
	}
	return st.rule.by(source)
}

// Mode is the migration's; ModeNew if there is none.
func (st *State) Mode() dynamicconfig.Mode {
	if st.rule == nil || st.rule.rule.Migration == nil {
		return dynamicconfig.ModeNew
	}
	return st.rule.rule.Migration.Mode
}

// unasked reports whether s is a part of st that does not answer, and that no
// migration asks.
func (st *State) unasked(s *report.Subject) bool {
	i := slices.Index(st.parts(), s)
	return i >= 0 && st.migration == nil && i != answering(st.rule.rule)
}

// Parts are what is reported, the old one first. The Set's mu is held.
func (st *State) Parts() (all []share.Part) {
	for _, p := range st.parts() {
		all = append(all, p.Part())
	}
	return all
}

// live reports whether st decides itself.
func (st *State) live() bool { return st != nil && !st.idle && st.forward == nil }

// setPlain sets plain if the bucket alone decides.
func (st *State) setPlain(watched bool) {
	if watched || len(st.parts()) != 1 || st.Terms() != nil {
		return
	}
	switch s := st.Stage.(type) {
	case *share.Rate:
		st.plain = s
	case *remote.Auto:
		if !s.Asking() {
			st.auto = true
		}
	}
}

// Elsewhere reports whether a decision may wait for an answer from elsewhere. A bucket
// that is asked for each event is, and so is one that asks for what it does not have.
func (st *State) Elsewhere() bool {
	return slices.ContainsFunc(st.parts(), func(p *report.Subject) bool {
		switch p.Part().(type) {
		case *remote.Stage, *remote.Auto:
			return true
		}
		return false
	})
}

// find is the part of st under an algorithm; nil if there is none.
func (st *State) find(algorithm string) *report.Subject {
	for _, p := range st.parts() {
		if p.Part().Common().Terms().Algorithm == algorithm {
			return p
		}
	}
	return nil
}

// lastUsed is when a report last found new usage.
func (st *State) lastUsed() stage.Instant {
	used := st.used
	for _, p := range st.parts() {
		used = max(used, p.Used())
	}
	return used
}

// forgettable reports whether nothing is lost by forgetting the key: nobody used
// it for idle_after, and its buckets are full. The Set's mu is held.
func (st *State) forgettable(now stage.Instant) bool {
	if st.pair[0] == nil && st.touched.Swap(false) {
		st.used = now
	}
	return now.Sub(st.lastUsed()) >= st.rule.rule.IdleAfter && st.full(now)
}

// full reports whether the buckets are full and no slots are held, now and in
// earlier States. The Set's mu is held.
func (st *State) full(now stage.Instant) bool {
	if !st.remains.none(now) {
		return false
	}
	for _, p := range st.parts() {
		if !p.Idle(now) {
			return false
		}
	}
	return true
}

// touch notes that a key without parts is used. It writes only what is news.
func (st *State) touch() {
	if !st.touched.Load() {
		st.touched.Store(true)
	}
}

// remoteOf is the stage of p whose bucket is elsewhere; nil if there is none.
func remoteOf(p share.Part) *remote.Stage {
	switch s := p.(type) {
	case *remote.Stage:
		return s
	case *remote.Auto:
		return &s.Stage
	}
	return nil
}

// leave says that p leaves its key.
func leave(now stage.Instant, p share.Part) {
	if s := remoteOf(p); s != nil {
		s.Leave(now)
	}
}
