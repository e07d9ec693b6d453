// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"math"
	"slices"

	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/internal/tracing"
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
	traces   tracing.Traces
}

// watched reports whether somebody is told of each decision about a key.
func (b *builder) watched(key string) bool {
	return b.Listener != nil || b.traces.Has(key)
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
		b.fill(now, k.name, old, next, set.hosts, left.slots)
		if rule.rule.Bypassed() && next.Stage != nil {
			next.Stage = bypassed{next.Stage}
		}
	}
	if next.Slots != nil {
		next.Reason = stage.InFlight
	}
	next.remains = old.remainder(now, left, next)
	next.touched.Store(true)
	next.setPlain(b.watched(k.name))
	k.state.Store(next)
	if m := old.migration; m != nil && m != next.migration {
		old.countDivergence()
		if m.slots != nil {
			m.slots.SetMode(withoutShadow(old.rule.rule.Migration.Mode)) // for those who wait
		} else {
			m.end(now, old, next)
		}
	}
	kept := old.keeps(next)
	for _, p := range old.parts() {
		if !slices.Contains(next.parts(), p) {
			p.Retire(now)
			leave(now, p.Part())
			if s := slotsOf(p); s != nil && (kept || s != left.slots) {
				s.KeepApart()
			}
		}
	}
}

// keeps reports whether next has a part of st.
func (st *State) keeps(next *State) bool {
	return slices.ContainsFunc(st.parts(), func(p *report.Subject) bool { return slices.Contains(next.parts(), p) })
}

// holds is the slots that count what callers of st hold: of a migration, the part that
// counts most, because the other one may have counted less and never more than is held.
// nil if st limits a rate and has not limited slots before.
func (st *State) holds() (most *share.Slots) {
	if st.remains != nil {
		most = st.remains.slots
	}
	for _, p := range st.parts() {
		if s := slotsOf(p); s != nil && (most == nil || s.Census().Held > most.Census().Held) {
			most = s
		}
	}
	return most
}

// fill gives next the parts that its rule wants, and what decides by them. What
// answers from now on has no more tokens than what did. If next has no part of old, what
// answers counts what held has counted, too.
func (b *builder) fill(now stage.Instant, key string, old, next *State, hosts int, held *share.Slots) {
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
	if held != nil && rule.InFlight && !old.keeps(next) {
		held.Transfer(slotsOf(next.pair[max(answering(rule), 0)]))
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
