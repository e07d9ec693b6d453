// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"math"
	"slices"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/internal/usage"
	"github.com/headgate/headgate/limiter/stage"
)

// builder makes the State that a key's rule wants, out of the one before.
type builder struct {
	*Config
	metrics  *usage.Metrics
	reporter *report.Reporter
	hub      *remote.Hub
	redirect func(*remote.Auto) // to call when one begins or ends to ask
}

// forwarding is st, the state of a key of a shared rule, with another common Key.
func (st *State) forwarding(now stage.Instant, common *Key) *State {
	next := &State{forward: common, rule: st.rule, used: now, remains: st.remains}
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

// build gives k the state that its rule wants, out of what it has already:
// counts, tokens and grants stay wherever an algorithm stays. Either k is not
// live yet, and old is nil, or mu is held.
func (b *builder) build(now stage.Instant, k *Key, old *State, set *settings, rule *ruleState, common *Key) {
	if old == nil {
		old = &State{used: now}
	}
	next := &State{rule: rule, used: old.lastUsed()}
	left := old.left(now, set.hosts, common == nil && !rule.unmatched()) // before fill changes the level
	switch {
	case common != nil:
		next.forward = common
	case rule.unmatched():
		next.Stage, next.Reason = rule.full.Stage, rule.full.Reason
	default:
		b.fill(now, k.name, old, next, set.hosts)
	}
	if next.Slots != nil {
		next.Reason = stage.InFlight
	}
	next.remains = old.remainder(now, left, next)
	next.touched.Store(true)
	next.setPlain(b.Listener != nil)
	k.state.Store(next)
	if m := old.migration; m != nil && m != next.migration {
		old.countDivergence()
		if m.slots != nil {
			m.slots.SetMode(withoutShadow(old.rule.rule.Migration.Mode)) // for those who wait
		} else {
			m.end(now, old, next)
		}
	}
	kept := slices.ContainsFunc(old.parts(), func(p *report.Subject) bool { return slices.Contains(next.parts(), p) })
	for i, p := range old.parts() {
		if !slices.Contains(next.parts(), p) {
			p.Retire(now)
			leave(now, p.Part())
			if s := slotsOf(p); s != nil && (kept || i != answering(old.rule.rule)) {
				s.KeepApart()
			}
		}
	}
}

// fill gives next the parts that its rule wants, and what decides by them. What
// answers from now on has no more tokens than what did.
func (b *builder) fill(now stage.Instant, key string, old, next *State, hosts int) {
	rule, tokens := next.rule.rule, math.Inf(1)
	known, used, asked := old.due(now, hosts)
	kept := old.parts()
	if len(kept) > 0 && (slotsOf(kept[0]) != nil) != rule.InFlight {
		kept = nil // tokens and slots have nothing in common
	}
	if len(kept) > 0 && old.Stage != nil {
		tokens = share.FollowDebt(old.rule.rule.Limit, rule, old.level(now).Tokens)
	} else if left := old.remains; left != nil {
		tokens = share.FollowDebt(left.ruled, rule, left.tokensAt(now))
	}
	for i, t := range next.rule.shares {
		var s *report.Subject
		if len(kept) > 0 {
			s = old.find(t.Algorithm)
		}
		if s == nil && len(next.rule.shares) == 1 && len(kept) == 1 {
			s = kept[0]
			setTerms(now, s.Part(), t) // first, because the old fallback may let all pass
			s.Part().Forget(now, hosts)
		}
		if s == nil {
			s = b.reporter.NewSubject(now, b.newPart(now, key, t, hosts, tokens))
			if slots, left := slotsOf(s), old.remains; slots != nil && left != nil && left.slots != nil {
				left.slots.Transfer(slots)
			}
			s.Part().Common().State(old.stated(kept, unit(s)))
		}
		if t.Algorithm == asked {
			b.adopt(now, s, t, hosts, known, used)
		} else {
			b.adopt(now, s, t, hosts, used, used)
		}
		if r := remoteOf(s.Part()); r != nil && used > 0 && old.unasked(s) && i == answering(rule) {
			r.TakeOver(now, used, used)
		}
		next.pair[i] = s
	}
	b.decide(now, old, next, tokens)
}

// answering is the Rate that answers; nil if there is none.
func (st *State) answering() *share.Rate {
	if st.pair[0] == nil || answering(st.rule.rule) < 0 {
		return nil
	}
	return rateOf(st.pair[answering(st.rule.rule)].Part())
}

// level is what st, which has a Stage, says about the tokens that are left. What is
// unlimited says nothing, so there it is the level that rests, or an earlier one.
func (st *State) level(now stage.Instant) stage.Level {
	level := st.Stage.Level(now)
	if level.Limit < rate.Inf {
		return level
	}
	if r := st.answering(); r != nil {
		if rests := r.Rests(now); !math.IsInf(rests.Tokens, 1) {
			return rests
		}
	}
	if earlier := st.earlier(now); earlier.Limit < rate.Inf {
		return earlier
	}
	return level
}

// due returns how many tokens to charge a bucket elsewhere with that takes over from st:
// known if its algorithm is asked, because that bucket knows the rest already, and else
// used.
func (st *State) due(now stage.Instant, hosts int) (known, used int64, asked string) {
	if st.pair[0] != nil && st.Stage != nil {
		known = st.lately(now, st.Stage.Level(now), hosts)
	}
	earlier, left := st.earlier(now), st.remains
	switch {
	case left == nil:
		return known, known, ""
	case left.remote == "":
		return known, max(known, earlier.Missing()), ""
	}
	since := min(left.since+st.since(now), earlier.Missing())
	earlier.Tokens += float64(since) // what all hosts used
	before := evenly(earlier, hosts)
	return max(known-before, since), max(known, before+since), left.remote
}

// lately is what this host has used of late, as far as the parts of st, whose level
// it is, would not have filled in again. Of a bucket elsewhere it is an even part of
// what all hosts used. A grant's bucket does not tell what was used: the grant may lend
// fewer tokens than the bucket holds, or the bucket may be small and full. So a host with
// a grant has used at least what its fallback lacks by use, and no more than all parts
// ever allowed or took over.
func (st *State) lately(now stage.Instant, level stage.Level, hosts int) int64 {
	used, r := evenly(level, hosts), st.answering()
	if level.Remote || r == nil {
		return used
	}
	allowed := int64(0)
	for _, p := range st.parts() {
		allowed += rateOf(p.Part()).Bucket().Allowed() + p.Part().Admitted()
		if r := remoteOf(p.Part()); r != nil {
			allowed += r.TookOver()
		}
	}
	switch rests := r.Rests(now).Missing(); {
	case !r.Granted():
		return max(used, min(rests, allowed))
	case level.Limit < rate.Inf:
		return max(min(used, max(rests, allowed)), min(r.Spent(now), allowed))
	default:
		return rests
	}
}

// evenly is what is missing at level; of a bucket elsewhere, one host's even part.
func evenly(level stage.Level, hosts int) int64 {
	if level.Remote {
		return (level.Missing() + int64(hosts) - 1) / int64(hosts)
	}
	return level.Missing()
}

// stated is the demand that was stated in a unit, for kept or for what remains of
// earlier parts; Measured if none was.
func (st *State) stated(kept []*report.Subject, unit int) float64 {
	if len(kept) > 0 {
		if wants, ok := kept[0].Part().Common().Stated(); ok {
			return wants
		}
	} else if left := st.remains; left != nil {
		return left.wants[unit]
	}
	return share.Measured
}

// newPart makes the part of key under t.
func (b *builder) newPart(now stage.Instant, key string, t *share.Terms, hosts int, tokens float64) share.Part {
	salt := b.reporter.Salt()
	if t.Rule.InFlight {
		return share.NewSlots(now, key, t, hosts)
	}
	return share.NewRate(now, key, t, hosts, tokens, salt)
}

// adopt puts s under t, and makes its part one that asks elsewhere if t wants
// that. A bucket elsewhere that was not asked before is charged with what this
// host used lately and it does not know, so that it gives no second burst.
func (b *builder) adopt(now stage.Instant, s *report.Subject, t *share.Terms, hosts int, charge, used int64) {
	setTerms(now, s.Part(), t)
	r := rateOf(s.Part())
	if r == nil {
		s.Part().Steer(now, hosts)
		return
	}
	elsewhere := b.Remotes[t.Algorithm]
	if p := remoteOf(s.Part()); p != nil && !p.Asks(t.Algorithm) {
		p.Flush(now)
		s.SetPart(now, r)
		leave(now, p)
	}
	s.Part().Steer(now, hosts)
	s.Begin(now)
	if elsewhere != nil && s.Part() == share.Part(r) {
		if t.Algorithm == share.Auto {
			s.SetPart(now, remote.NewAuto(r, elsewhere, b.hub, b.redirect))
		} else {
			s.SetPart(now, remote.New(r, elsewhere, b.hub))
		}
		if of := stageOf(s); used > 0 && of.Level(now).Remote {
			remoteOf(s.Part()).TakeOver(now, charge, used)
		}
	}
}

// setTerms puts p under t, but for what Steer does.
func setTerms(now stage.Instant, p share.Part, t *share.Terms) {
	if r := rateOf(p); r != nil {
		r.SetTerms(now, t)
	} else {
		p.Common().SetTerms(t)
	}
}

// rateOf is the Rate that p is, or is around; nil for slots.
func rateOf(p share.Part) *share.Rate {
	if r, ok := p.(share.RatePart); ok {
		return r.Own()
	}
	return nil
}

// decide sets what next decides by: two parts under a migration, or the one that
// answers where nothing measures the other.
func (b *builder) decide(now stage.Instant, old, next *State, tokens float64) {
	rule := next.rule.rule
	if rule.Migration != nil && b.migrate(now, old, next, rule.Migration.Mode, tokens) {
		return
	}
	i := answering(rule)
	if i < 0 {
		next.Stage = unlimited{}
		return
	}
	if slots := slotsOf(next.pair[i]); slots != nil {
		next.Slots = slots
		return
	}
	next.Stage = stageOf(next.pair[i])
	next.Stage.Cap(now, tokens)
}

// migrate has the two parts of next decide in mode, and reports whether it could.
func (b *builder) migrate(now stage.Instant, old, next *State, mode dynamicconfig.Mode, tokens float64) bool {
	first, second := next.pair[0], next.pair[1]
	m, of, inFlight := old.migration, [2]share.Part{first.Part(), second.Part()}, slotsOf(first) != nil
	switch {
	case m != nil && m.of == of && inFlight:
		m.slots.SetMode(mode)
	case m != nil && m.of == of:
		m.stages.SetMode(now, mode)
		if mode != old.rule.rule.Migration.Mode { // the limits may have changed too
			m.stages.Cap(now, tokens)
		}
	case inFlight && b.Migrator.Slots != nil:
		m = &migration{of: of, slots: b.Migrator.Slots(slotsOf(first), slotsOf(second), mode)}
	case !inFlight && b.Migrator.Stages != nil:
		m = &migration{of: of, stages: b.Migrator.Stages(now, stageOf(first), stageOf(second), mode, b.hub.Background)}
		m.stages.Cap(now, tokens)
	default:
		return false
	}
	if next.migration = m; inFlight {
		next.Slots = m.slots
	} else {
		next.Stage = m.stages
	}
	return true
}

// end ends m, which old has and next has not. If next keeps a part that m did not
// ask, m asks it from now on: so a bucket elsewhere is charged with what it missed.
func (m *migration) end(now stage.Instant, old, next *State) {
	switch mode := old.Mode(); {
	case mode == dynamicconfig.ModeOld && slices.Contains(next.parts(), old.pair[1]):
		m.stages.SetMode(now, dynamicconfig.ModeOldShadowNew)
	case mode == dynamicconfig.ModeNew && slices.Contains(next.parts(), old.pair[0]):
		m.stages.SetMode(now, dynamicconfig.ModeNewShadowOld)
	}
}

// withoutShadow is mode without a limiter that is only measured.
func withoutShadow(mode dynamicconfig.Mode) dynamicconfig.Mode {
	switch mode {
	case dynamicconfig.ModeOldShadowNew:
		return dynamicconfig.ModeOld
	case dynamicconfig.ModeNewShadowOld:
		return dynamicconfig.ModeNew
	default:
		return mode
	}
}
