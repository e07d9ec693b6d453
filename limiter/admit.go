// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"slices"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/keytable"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// attach makes l's key live and returns what decides for it. If another
// Limiter is live for the key, l forwards to it. If there is no room, l is
// refused, and tries again when there may be room.
func (g *Group) attach(now stage.Instant, l *Limiter) *state {
	if len(l.key) == 0 || len(l.key) > rpc.MaxKeyLength {
		return g.invalid
	}
	for {
		set := g.settings.Load()
		rule := set.rules.match(l.key)
		if rule.keys.Load() >= rule.most() && g.table.Get(l.key) == nil && !rule.shared {
			l.state.Store(rule.full)
			return rule.full
		}
		var common *Limiter
		if rule.shared && !rule.isCommon(l.key) {
			common = g.For(rule.rule.Key)
			common.current(now)
			common = g.For(rule.rule.Key)
		}
		if st, born, ok := g.admit(now, l, set, rule, common); ok {
			if born && rule.rule == nil {
				g.metrics.unmatched.Inc(1)
				g.log.Warn("no rule matches a key", "key", l.key, "unmatched", set.rules.snapshot.Unmatched().String())
			}
			return st
		}
	}
}

// admit is attach under the settings that were read. ok is false if the
// settings have changed. A Configure or SetHosts locks this part of the table
// after it stores new settings, so it sees every key that is admitted here.
func (g *Group) admit(now stage.Instant, l *Limiter, set *settings, rule *ruleState, common *Limiter) (st *state, born, ok bool) {
	p := g.table.Lock(l.key)
	defer p.Unlock()

	if g.settings.Load() != set {
		return nil, false, false
	}
	if live := p.Get(); live != nil {
		if st := live.state.Load(); st != nil && st.asleep {
			if st.rule == rule {
				g.wake(now, live, set, rule, common)
			} else { // the rules have changed since, and it is as if it were new
				g.forget(now, p, live)
			}
		}
		if st := live.state.Load(); st != nil {
			if live != l {
				l.state.Store(&state{forward: live, rule: rule})
			}
			if st.forward != nil {
				if st.forward != common && st.rule == rule { // the common Limiter was forgotten; there is another
					live.state.CompareAndSwap(st, forwarding(now, common, rule))
					st = live.state.Load()
				}
				st = st.forwarded()
			}
			return st, false, st.live()
		}
	}
	if rule.keys.Add(1) > rule.most() && !rule.isCommon(l.key) {
		rule.keys.Add(-1)
		if common != nil { // it needs no place to decide
			st := common.state.Load()
			return st, false, st.live()
		}
		l.state.Store(rule.full)
		return rule.full, false, true
	}
	g.wake(now, l, set, rule, common)
	p.Put(l)
	g.tell(now, EventCreated, l.key, rule)
	st = l.state.Load().forwarded()
	return st, true, st.live()
}

// forwarding is the state of a key of a shared rule, which decides through the
// common Limiter.
func forwarding(now stage.Instant, common *Limiter, rule *ruleState) *state {
	st := &state{forward: common, rule: rule, used: now}
	st.touched.Store(true)
	return st
}

// forwarded is what decides instead of st; st itself if it does not forward.
func (st *state) forwarded() *state {
	if st == nil || st.forward == nil {
		return st
	}
	return st.forward.state.Load()
}

// wake makes l live, which is not. Its part of the table is locked.
func (g *Group) wake(now stage.Instant, l *Limiter, set *settings, rule *ruleState, common *Limiter) {
	g.shape(now, l, nil, set, rule, common)
	g.freshMu.Lock()
	g.fresh = append(g.fresh, l)
	g.freshMu.Unlock()
}

// mergeLocked takes in the keys that were admitted since the last time.
func (g *Group) mergeLocked() {
	g.freshMu.Lock()
	g.live = append(g.live, g.fresh...)
	g.fresh = nil
	g.freshMu.Unlock()
}

// forget takes l out of the table. Its part of the table is locked. A Limiter
// that is held comes back when it is used.
func (g *Group) forget(now stage.Instant, p keytable.Part[Limiter], l *Limiter) {
	st := l.state.Load()
	p.Delete()
	l.state.Store(nil)
	st.rule.keys.Add(-1)
	g.tell(now, EventRemoved, l.key, st.rule)
}

// shape gives l the state that its rule wants, out of what it has already:
// counts, tokens and grants stay wherever an algorithm stays. Either l is not
// live yet, and old is nil, or mu is held.
func (g *Group) shape(now stage.Instant, l *Limiter, old *state, set *settings, rule *ruleState, common *Limiter) {
	if old == nil {
		old = &state{used: now}
	}
	next := &state{rule: rule, used: old.lastUsed()}
	switch {
	case common != nil:
		next.forward = common
	case rule.rule == nil:
		next.stage, next.reason = rule.full.stage, rule.full.reason
	default:
		g.fill(now, l.key, old, next, set.hosts)
	}
	if next.slots != nil {
		next.reason = stage.InFlight
	}
	next.touched.Store(true)
	next.plain(g.events != nil)
	l.state.Store(next)
	if m := old.migration; m != nil && m != next.migration && m.slots != nil {
		m.slots.SetMode(withoutShadow(old.rule.rule.Migration.Mode)) // for those who wait
	}
	kept := slices.ContainsFunc(old.parts(), func(p *report.Subject) bool { return slices.Contains(next.parts(), p) })
	for i, p := range old.parts() {
		if !slices.Contains(next.parts(), p) {
			p.Retire()
			leave(now, p.Part())
			if s := slotsOf(p); s != nil && (kept || !answers(old.rule.rule, i)) {
				s.KeepApart()
			}
		}
	}
}

// fill gives next the parts that its rule wants, and what decides by them. What
// answers from now on has no more tokens than what did.
func (g *Group) fill(now stage.Instant, key string, old, next *state, hosts int) {
	rule, tokens := next.rule.rule, math.Inf(1)
	kept := old.parts()
	if len(kept) > 0 && (slotsOf(kept[0]) != nil) != rule.InFlight {
		kept = nil // tokens and slots have nothing in common
	}
	if len(kept) > 0 && old.stage != nil {
		tokens = old.stage.Level(now).Tokens
	}
	for i, t := range next.rule.shares {
		var s *report.Subject
		if len(kept) > 0 {
			s = old.find(t.Algorithm)
		}
		if s == nil && len(next.rule.shares) == 1 && len(kept) == 1 {
			s = kept[0]
			s.Part().Common().SetTerms(t) // first, because the old fallback may let all pass
			s.Part().Forget(now, hosts)
		}
		if s == nil {
			s = g.reporter.NewSubject(now, g.newPart(now, key, t, hosts, tokens))
			if wants, stated := statedBy(kept); stated {
				s.Part().Common().State(wants)
			}
		}
		g.adopt(now, s, t, hosts)
		next.pair[i] = s
	}
	g.decide(now, old, next, tokens)
}

// statedBy is the demand that was stated for kept.
func statedBy(kept []*report.Subject) (wants float64, ok bool) {
	if len(kept) == 0 {
		return 0, false
	}
	return kept[0].Part().Common().Stated()
}

// newPart makes the part of key under t.
func (g *Group) newPart(now stage.Instant, key string, t *share.Terms, hosts int, tokens float64) share.Part {
	salt := g.reporter.Salt()
	if t.Rule.InFlight {
		return share.NewSlots(now, key, t, hosts)
	}
	return share.NewRate(now, key, t, hosts, tokens, salt)
}

// adopt puts s under t, and makes its part one that asks elsewhere if t wants
// that.
func (g *Group) adopt(now stage.Instant, s *report.Subject, t *share.Terms, hosts int) {
	s.Part().Common().SetTerms(t)
	r := rateOf(s.Part())
	if r == nil {
		s.Part().Steer(now, hosts)
		return
	}
	elsewhere := g.remotes[t.Algorithm]
	_, auto := s.Part().(*remote.Auto)
	if p := remoteOf(s.Part()); p != nil && (auto != (t.Algorithm == Auto) || !p.Asks(elsewhere)) {
		p.Flush(now)
		s.SetPart(now, r)
		leave(now, p)
	}
	s.Part().Steer(now, hosts)
	s.Begin(now)
	if elsewhere != nil && s.Part() == share.Part(r) {
		if t.Algorithm == Auto {
			s.SetPart(now, remote.NewAuto(r, elsewhere, g, hosts, g.redirect))
		} else {
			s.SetPart(now, remote.New(r, elsewhere, g))
		}
	}
}

// rateOf is the Rate that p is, or is around; nil for slots.
func rateOf(p share.Part) *share.Rate {
	if r, ok := p.(share.RatePart); ok {
		return r.Own()
	}
	return nil
}

// decide sets what next decides by: its only part, or two under a migration.
func (g *Group) decide(now stage.Instant, old, next *state, tokens float64) {
	rule := next.rule.rule
	if m := rule.Migration; m != nil {
		g.migrate(now, old, next, m.Mode, tokens)
		return
	}
	if slots := slotsOf(next.pair[0]); slots != nil {
		next.slots = slots
		return
	}
	next.stage = stageOf(next.pair[0])
	next.stage.Cap(now, tokens)
}

// migrate has the two parts of next decide in mode.
func (g *Group) migrate(now stage.Instant, old, next *state, mode dynamicconfig.Mode, tokens float64) {
	a, b := next.pair[0], next.pair[1]
	m, of, inFlight := old.migration, [2]share.Part{a.Part(), b.Part()}, slotsOf(a) != nil
	switch {
	case m != nil && m.of == of && inFlight:
		m.slots.SetMode(mode)
		next.slots, next.migration = m.slots, m
	case m != nil && m.of == of:
		m.stages.SetMode(now, mode)
		if mode != old.rule.rule.Migration.Mode { // the limits may have changed too
			m.stages.Cap(now, tokens)
		}
		next.stage, next.migration = m.stages, m
	case inFlight && g.migrator.Slots != nil:
		m = &migration{of: of, slots: g.migrator.Slots(slotsOf(a), slotsOf(b), mode)}
		next.slots, next.migration = m.slots, m
	case !inFlight && g.migrator.Stages != nil:
		m = &migration{of: of, stages: g.migrator.Stages(now, stageOf(a), stageOf(b), mode, g.Background)}
		m.stages.Cap(now, tokens)
		next.stage, next.migration = m.stages, m
	default:
		g.answer(now, next, tokens)
	}
}

// answer has next decide by the part that its mode answers with, where nothing
// measures the other.
func (g *Group) answer(now stage.Instant, next *state, tokens float64) {
	next.stage = unlimited{}
	for i, p := range next.pair {
		if !answers(next.rule.rule, i) {
			continue
		}
		if slots := slotsOf(p); slots != nil {
			next.stage, next.slots = nil, slots
			return
		}
		next.stage = stageOf(p)
		next.stage.Cap(now, tokens)
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

// redirect publishes the state of a's key anew: Allow goes straight to the
// bucket while a does not ask, and through a while it does. mu is held.
func (g *Group) redirect(a *remote.Auto) {
	l := g.table.Get(a.Key())
	if l == nil {
		return
	}
	st := l.state.Load()
	if !st.live() || len(st.parts()) != 1 || stageOf(st.pair[0]) != stage.Stage(a) {
		return // what decides then finds a
	}
	next := &state{stage: st.stage, rule: st.rule, pair: st.pair, used: st.used}
	next.plain(g.events != nil)
	l.state.Store(next)
}
