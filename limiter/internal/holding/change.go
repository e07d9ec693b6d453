// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"math"
	"slices"

	"github.com/headgate/headgate/limiter/internal/forgiven"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
)

// Change is one under way: Next takes over from the Holding before. Its steps are, in this order:
//
//	Begin  settle        the account of the old Holding, as of now, and follow: under the next rule
//	       fill          a part for each of the rule's algorithms: it stays, goes on under another one, or is new
//	         ContinueUnder  a part that goes on: its owner has paid for some tokens, and gets its grant back
//	         Leave          a remote bucket that is not asked any more
//	         TakeOver       one that is asked from now on: it is charged with what the key lacks and the bucket does not
//	       decide        the part that answers is capped to the tokens that there were
//	       carryOver     the account, and what else Next cannot show
//	Key    callers find Next
//	End    leave         parts that only the old Holding has: their last usage is reported, and slots move on
type Change struct {
	Next Holding

	builder *Builder
	key     string
	old     before
	held    *share.Slots // that count what callers hold; nil if there were none
}

// End ends what only the old Holding has. It is called once, when callers find Next.
func (c *Change) End() {
	kept := c.old.keepsPart(&c.Next)
	for _, p := range c.old.Subjects() {
		if slices.Contains(c.Next.Subjects(), p) {
			continue
		}
		leave(c.old.now, p)
		if r := p.Rate; r != nil && !kept { // a part that stays gets back itself what both gave
			r.Leave(false)
		}
		if s := p.Slots(); s != nil && (kept || s != c.held) {
			s.KeepApart()
		}
	}
}

// fill gives Next the parts that its rule wants, and the Stage or Slots that decide by them. What
// answers from now on has no more tokens than what answered before, or than are carried over.
func (c *Change) fill() {
	old, next, now := &c.old, &c.Next, c.old.now
	rule, stay := next.plan.Rule, old.Subjects()
	for _, s := range stay {
		s.Tally(now)
	}
	if len(stay) > 0 && (stay[0].Slots() != nil) != rule.InFlight {
		stay = nil // tokens and slots have nothing in common
	}
	tokens := math.Inf(1)
	if len(stay) > 0 && old.Stage != nil {
		tokens = forgiven.Follow(old.plan.Rule.Limit, rule, old.tokensFor(c.builder.Links[next.plan.answering()] == nil))
	}
	if !rule.InFlight {
		if old.follow(next.plan); len(stay) == 0 {
			tokens = old.account.level().Tokens
		}
	}
	var goesOn *report.Subject // under the algorithm that answers, if none of stay is under that
	switch {
	case len(stay) == 1 && len(next.plan.Terms) == 1:
		goesOn = stay[0]
	case len(stay) > 0 && old.plan.goesOn(next.plan):
		goesOn = old.pair[old.plan.Answers]
	}
	for i, t := range next.plan.Terms {
		answers, measured := i == next.plan.Answers, c.builder.Migrator.Stages != nil && i == next.plan.measured()
		at := slices.IndexFunc(stay, func(s *report.Subject) bool { return s.Name() == t.Name() })
		charge, used := int64(0), 0.
		if elsewhere := c.builder.Links[t.Algorithm] != nil || t.ChargedByReports(); elsewhere && !rule.InFlight && (answers || measured) {
			charge, used = old.charge(t, at < 0 || !old.charged(stay[at], answers))
		}
		switch {
		case at >= 0:
			next.pair[i] = stay[at]
		case answers && goesOn != nil:
			next.pair[i], charge = goesOn, goesOn.ContinueUnder(now, t, charge, old.hosts)
		default:
			most := tokens
			if next.plan.Answers < 0 { // what answers after next is capped to what is left then
				most = math.Inf(1)
			}
			next.pair[i] = c.builder.Reporter.NewSubject(now, c.newPart(t, most))
			next.pair[i].Part().Common().State(old.statedDemand(stay, unit(next.pair[i])))
		}
		s := next.pair[i]
		c.adopt(s, t)
		if of := remote.Of(s.Part()); of != nil {
			of.TakeOver(now, charge, used)
		} else if s.ChargedByReports() {
			s.TakeOver(now, charge)
		}
	}
	if c.held != nil && rule.InFlight && !old.keepsPart(next) {
		c.held.Transfer(next.pair[max(next.plan.Answers, 0)].Slots())
	}
	c.decide(tokens)
}

// newPart makes a part under t.
func (c *Change) newPart(t *share.Terms, tokens float64) share.Part {
	salt := c.builder.Reporter.Salt()
	if t.Rule.InFlight {
		return share.NewSlots(c.old.now, c.key, t, c.old.hosts)
	}
	return share.NewRate(c.old.now, c.key, t, c.old.hosts, tokens, salt)
}

// adopt puts s under t, and makes its part one that asks elsewhere if t wants that.
func (c *Change) adopt(s *report.Subject, t *share.Terms) {
	now := c.old.now
	s.Part().SetTerms(now, t)
	r := s.Rate
	if r == nil {
		s.Part().Steer(now, c.old.hosts)
		return
	}
	if p := remote.Of(s.Part()); p != nil && !p.Asks(t) {
		p.Leave()
		s.SetPart(now, r)
	}
	s.Part().Steer(now, c.old.hosts)
	s.Begin(now)
	if to := c.builder.Links[t.Algorithm]; to != nil && s.Part() == share.Part(r) {
		if t.Algorithm == share.Auto {
			s.SetPart(now, remote.NewAuto(r, to))
		} else {
			s.SetPart(now, remote.New(r, to))
		}
		c.old.account.shareHeard(s)
	}
}

// decide sets what Next decides by: two parts under a migration, or the one that
// answers where nothing measures the other.
func (c *Change) decide(tokens float64) {
	next := &c.Next
	i := next.plan.Answers
	elsewhere := slices.ContainsFunc(next.Parts(), func(p share.Part) bool { return remote.Of(p) != nil })
	for _, p := range next.Subjects() {
		if r := p.Rate; r != nil {
			r.SetPaired(elsewhere && c.builder.Migrator.Stages != nil && next.plan.measured() >= 0)
		}
	}
	switch {
	case next.plan.Rule.Migration != nil && c.migrate(tokens):
	case i < 0:
		next.Stage = Unlimited{}
	case next.pair[i].Slots() != nil:
		next.Slots = next.pair[i].Slots()
	default:
		next.Stage = stageOf(next.pair[i])
		next.Stage.Cap(c.old.now, tokens)
	}
}

// migrate has the two parts of Next decide in the mode of its rule, and reports whether
// they can.
func (c *Change) migrate(tokens float64) bool {
	next, now, migrator := &c.Next, c.old.now, c.builder.Migrator
	first, second, rule := next.pair[0], next.pair[1], next.plan.Rule
	mode := rule.Migration.Mode
	m, of, inFlight := c.old.Migration(), [2]share.Part{first.Part(), second.Part()}, first.Slots() != nil
	switch {
	case m != nil && m.of == of:
		m.follow(now, rule)
	case inFlight && migrator.Slots != nil:
		m = &migration{of: of, mode: mode, rule: rule.Key, slots: migrator.Slots(first.Slots(), second.Slots(), mode)}
	case !inFlight && migrator.Stages != nil:
		m = &migration{of: of, mode: mode, rule: rule.Key, stages: migrator.Stages(now, stageOf(first), stageOf(second), mode, c.builder.Hub.Background)}
		c.old.account.forgetDiffered()
	default:
		return false
	}
	if m.stages == nil && m.slots == nil {
		return false
	}
	m.bypass(rule.Bypassed())
	if next.extras = next.extras.withMigration(m); inFlight {
		next.Slots = m.slots
		return true
	}
	next.Stage = m.stages
	if i := next.plan.Answers; i >= 0 { // the other part keeps its tokens, as far as it is only measured
		stageOf(next.pair[i]).Cap(now, tokens)
	}
	return true
}
