// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"math"
	"slices"

	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
)

// Change is one under way: Next takes over from the Holding before. Its steps are, in this order:
//
//	Begin  carryOver     what the old Holding carries over: tokens, slots, demand, and which remote bucket was charged
//	       fill          a part for each of the rule's algorithms: it stays, goes on under another one, or is new
//	         ContinueUnder  a part that goes on: its owner has paid for some tokens, and gets its grant back
//	         Leave          a remote bucket that is not asked any more
//	         TakeOver       one that is asked from now on: it is charged with what it was not charged with yet
//	       end           a migration that ends: a remote bucket that stays is charged with what it missed
//	       decide        the part that answers is capped to the tokens that there were
//	       stillCarried  the part of the carryover that Next cannot show
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
	if from := c.old.AnsweringSlots(); from != nil && from != c.Next.AnsweringSlots() {
		from.Dismiss()
	}
	kept := c.old.keepsPart(&c.Next)
	for _, p := range c.old.Subjects() {
		if slices.Contains(c.Next.Subjects(), p) {
			continue
		}
		leave(c.old.now, p)
		if s := p.Slots(); s != nil && (kept || s != c.held) {
			s.KeepApart()
		}
	}
}

// fill gives Next the parts that its rule wants, and the Stage or Slots that decide by them. What
// answers from now on has no more tokens than what answered before, or than are carried over.
func (c *Change) fill(carried *carryover) {
	old, next, now := &c.old, &c.Next, c.old.now
	rule, charges := next.plan.Rule, old.chargesFor(next.plan)
	stay := old.Subjects()
	for _, s := range stay {
		s.Tally(now)
	}
	if len(stay) > 0 && (stay[0].Slots() != nil) != rule.InFlight {
		stay = nil // tokens and slots have nothing in common
	}
	local := c.builder.Links[next.plan.answering()] == nil
	tokens := share.FollowDebt(carried.ruleLimit, rule, carried.tokensFor(local, now, old.hosts))
	if len(stay) > 0 && old.Stage != nil {
		tokens = share.FollowDebt(old.plan.Rule.Limit, rule, old.tokensFor(local))
	}
	var goesOn *report.Subject // under the algorithm that answers, if none of stay is under that
	switch {
	case len(stay) == 1 && len(next.plan.Terms) == 1:
		goesOn = stay[0]
	case len(stay) > 0 && old.plan.goesOn(next.plan):
		goesOn = old.pair[old.plan.Answers]
	}
	for i, t := range next.plan.Terms {
		answers, charge := i == next.plan.Answers, charges.of(t.Algorithm)
		at := slices.IndexFunc(stay, func(s *report.Subject) bool { return s.Algorithm() == t.Algorithm })
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
		begins := c.adopt(s, t)
		if r := s.Rate; r != nil {
			r.SetUsedBefore(charges.used)
		}
		asked, of, byReports := answers || next.plan.measured() == i, remote.Of(s.Part()), s.ChargedByReports()
		switch {
		case of == nil && !byReports, !asked && !begins:
			continue
		case begins, byReports && at < 0:
		case byReports && !s.Common().Given() && pooled(old.plan.answering()): // its pool goes on with the tokens of that
			charge = 0
		case old.notAsked(s):
			charge = min(charge, old.mostUncharged(s))
		default:
			charge = 0
		}
		if byReports {
			s.TakeOver(now, charge)
		} else {
			of.TakeOver(now, charge)
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

// adopt puts s under t, and makes its part one that asks elsewhere if t wants that. It reports
// whether a remote bucket is asked from now on.
func (c *Change) adopt(s *report.Subject, t *share.Terms) (begins bool) {
	now := c.old.now
	s.Part().SetTerms(now, t)
	r := s.Rate
	if r == nil {
		s.Part().Steer(now, c.old.hosts)
		return false
	}
	if p := remote.Of(s.Part()); p != nil && !p.Asks(t.Algorithm) {
		p.Leave()
		s.SetPart(now, r)
	}
	s.Part().Steer(now, c.old.hosts)
	s.Begin(now)
	to := c.builder.Links[t.Algorithm]
	if to == nil || s.Part() != share.Part(r) {
		return false
	}
	if t.Algorithm == share.Auto {
		s.SetPart(now, remote.NewAuto(r, to))
	} else {
		s.SetPart(now, remote.New(r, to))
	}
	return stageOf(s).Level(now).Remote
}

// decide sets what Next decides by: two parts under a migration, or the one that
// answers where nothing measures the other.
func (c *Change) decide(tokens float64) {
	next := &c.Next
	i := next.plan.Answers
	if m := c.old.Migration(); m != nil && m.stages != nil && !slices.Equal(m.of[:], next.Parts()) {
		m.end(c.old.now, c.old.Holding, next) // first, because a stage may show what it is capped to
	}
	for i, p := range next.Subjects() {
		if r := p.Rate; r != nil {
			r.SetPaired(c.builder.Migrator.Stages != nil && next.plan.measured() >= 0 && remote.Of(next.pair[1-i].Part()) != nil)
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
