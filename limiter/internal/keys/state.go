// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"math"
	"slices"
	"sync/atomic"

	"golang.org/x/time/rate"

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

// remains are what a key had when its rule vanished, or changed to another kind
// of limit, or to a level that cannot show what is missing, such as a closed
// fallback's. If the rule comes back, the key has no second burst, and the demand
// that was stated. The Set's mu guards the remains of a live key.
type remains struct {
	tokens, burst float64
	limit         rate.Limit
	ruled         rate.Limit // the rule's limit, of which limit is a part
	at            stage.Instant
	counted       int64        // what the Rate that answers had allowed by then
	remote        string       // the algorithm, if the tokens were elsewhere
	since         int64        // what was used here since they were elsewhere
	slots         *share.Slots // retired; nil if there were none
	wants         [2]float64   // events/s, and slots, that the service stated; or Measured
}

// nothing is the remains of a key that had no rule before.
var nothing = remains{tokens: math.Inf(1), wants: [2]float64{share.Measured, share.Measured}}

// unit is the index in remains.wants of what s limits.
func unit(s *report.Subject) int {
	if slotsOf(s) != nil {
		return 1
	}
	return 0
}

// left returns the remains that the State after st begins with: st's own remains, or its
// level if more is missing there. With parts, the next State needs to know how much was
// used, because a grant lends fewer tokens than its bucket holds.
func (st *State) left(now stage.Instant, hosts int, parts bool) remains {
	left := nothing
	if st.remains != nil {
		left = *st.remains
	}
	if !math.IsInf(left.tokens, 1) {
		left.tokens, left.at = st.earlier(now).Tokens, now
		left.since += st.since(now)
		left.counted = st.allowed()
	}
	if first := st.pair[0]; first == nil || slotsOf(first) != nil {
		return left
	}
	level := st.level(now)
	if !level.Remote {
		lately := st.lately(now, st.Stage.Level(now), hosts)
		if r := st.answering(); r != nil && lately > level.Missing() { // more than a grant's bucket can show
			level = r.Rests(now)
			level.Tokens = level.Burst - float64(lately)
		} else if parts {
			level.Tokens = max(level.Tokens, level.Burst-float64(lately))
		}
	}
	more := math.IsInf(left.tokens, 1) || level.Missing() > left.missing() || level.Missing() == left.missing() && left.remote == ""
	if level.Limit < rate.Inf && (more || level.Remote) {
		left.tokens, left.burst, left.limit, left.at = level.Tokens, level.Burst, level.Limit, now
		left.ruled = st.rule.rule.Limit
		left.remote, left.since = "", 0
		if level.Remote {
			left.remote = st.rule.shares[answering(st.rule.rule)].Algorithm
		}
	}
	return left
}

// remainder returns the part of kept, which st left, that next must remember; nil if
// there is none.
func (st *State) remainder(now stage.Instant, kept remains, next *State) *remains {
	first := st.pair[0]
	if first != nil && next.pair[0] != first {
		if wants, stated := first.Part().Common().Stated(); stated {
			kept.wants[unit(first)] = wants
		}
		if slots := slotsOf(first); slots != nil && st.pair[1] == nil {
			kept.slots = slots
		}
	}
	switch {
	case next.Slots != nil:
		kept.slots = nil
	case next.pair[0] != nil:
		kept.follow(next.rule.rule.Limit)
		// A bucket elsewhere knows what was used, or has been charged with it. A bucket
		// here shows it, until the grant changes, but not that a bucket elsewhere knows it.
		shows := kept.remote == "" && (next.answering() == nil || !next.answering().Granted())
		if level := next.Stage.Level(now); kept.missing() == 0 || level.Remote || shows && level.Missing() >= kept.missing() {
			kept.tokens = math.Inf(1)
		}
		kept.counted = next.allowed()
	}
	if next.pair[0] != nil {
		kept.wants[unit(next.pair[0])] = share.Measured
	}
	if kept.slots == nil && math.IsInf(kept.tokens, 1) && !kept.stated() {
		return nil
	}
	return &kept
}

// stated reports whether the service stated a demand.
func (r *remains) stated() bool { return max(r.wants[0], r.wants[1]) >= 0 }

// state states the demand of a key that has no parts, which is st's.
func (st *State) state(wants float64) *State {
	kept := nothing
	if st.remains != nil {
		kept = *st.remains
	}
	kept.wants = [2]float64{wants, wants}
	next := &State{Stage: st.Stage, Reason: st.Reason, rule: st.rule, used: st.used, remains: &kept}
	next.touched.Store(true)
	return next
}

// missing is how many tokens r lacks; 0 if r has none.
func (r *remains) missing() int64 {
	return stage.Level{Limit: r.limit, Burst: r.burst, Tokens: r.tokens}.Missing()
}

// follow has r fill as fast as a rule with another limit says.
func (r *remains) follow(limit rate.Limit) {
	if r.ruled > 0 && limit > 0 {
		r.limit, r.ruled = r.limit*limit/r.ruled, limit
	}
}

// earlier is the level that st's remains have after what st allowed since; its
// tokens are infinite if there is none. What st allowed makes no debt.
func (st *State) earlier(now stage.Instant) stage.Level {
	left := st.remains
	if left == nil || math.IsInf(left.tokens, 1) {
		return stage.Level{Limit: rate.Inf, Tokens: math.Inf(1)}
	}
	filled := min(left.tokensAt(now), left.burst)
	used := float64(st.since(now))
	return stage.Level{
		Limit: left.limit, Burst: left.burst, Tokens: max(filled-used, min(filled, 0)), Remote: left.remote != "",
	}
}

// since is what st allowed since its remains were as they are, as far as its own limit
// has not filled it in again while the remains were full. What nothing limited does not
// count.
func (st *State) since(now stage.Instant) int64 {
	if st.remains == nil || st.Stage == nil {
		return 0
	}
	limit := st.Stage.Level(now).Limit
	if limit >= rate.Inf {
		return 0
	}
	used := float64(max(st.allowed()-st.remains.counted, 0))
	filled := float64(limit) * max(now.Sub(st.remains.at), 0).Seconds()
	full := max(st.remains.tokensAt(now)-st.remains.burst, 0)
	return int64(max(math.Ceil(used-min(filled, full)-1e-6), 0))
}

// allowed is what the Rate that answers has ever allowed, here and elsewhere.
func (st *State) allowed() int64 {
	r := st.answering()
	if r == nil {
		return 0
	}
	return r.Bucket().Allowed() + st.pair[answering(st.rule.rule)].Part().Admitted()
}

// tokensAt is what is left for a new bucket.
func (r *remains) tokensAt(now stage.Instant) float64 {
	return r.tokens + float64(r.limit)*max(now.Sub(r.at), 0).Seconds()
}

// none reports whether nothing is lost by forgetting r, which may be nil: its
// bucket would be full by now, no slots are held, and no demand is stated.
func (r *remains) none(now stage.Instant) bool {
	return r == nil || !r.stated() && (r.slots == nil || !r.slots.Census().Busy()) && (r.limit <= 0 || r.tokensAt(now) >= r.burst)
}

// migration is two parts behind a mode; stages or slots is nil.
type migration struct {
	of      [2]share.Part
	stages  stage.Migration
	slots   stage.SlotsMigration
	counted stage.Divergence // as of the last report
}

// divergence is how the two parts answered so far.
func (m *migration) divergence() stage.Divergence {
	switch {
	case m == nil:
		return stage.Divergence{}
	case m.slots != nil:
		return m.slots.Divergence()
	default:
		return m.stages.Divergence()
	}
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

// Divergence is how the two sides of a migration answered so far.
func (st *State) Divergence() stage.Divergence { return st.migration.divergence() }

// countDivergence counts how the two sides answered since the last time. The
// Set's mu is held.
func (st *State) countDivergence() {
	if m := st.migration; m != nil {
		now := m.divergence()
		st.rule.usage.Diverged(now.Since(m.counted))
		m.counted = now
	}
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
func (st *State) setPlain(listened bool) {
	if listened || len(st.parts()) != 1 || st.Terms() != nil {
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
