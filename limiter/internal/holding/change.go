// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"math"
	"slices"

	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
)

// Change is one under way: Next takes over from the Holding before.
type Change struct {
	Next Holding

	builder *Builder
	key     string
	old     before
	left    *share.Slots // that count what callers hold; nil if there were none
}

// End ends what only the old Holding has. It is called once, when callers find Next.
func (c *Change) End() {
	now := c.old.now
	if from := c.old.AnsweringSlots(); from != nil && from != c.Next.AnsweringSlots() {
		from.Dismiss()
	}
	kept := c.old.keeps(&c.Next)
	for _, p := range c.old.Subjects() {
		if slices.Contains(c.Next.Subjects(), p) {
			continue
		}
		retire(now, p)
		if s := slotsOf(p); s != nil && (kept || s != c.left) {
			s.KeepApart()
		}
	}
}

// fill gives Next the parts that its rule wants, and what decides by them. What
// answers from now on has no more tokens than what did. If Next has no part of the old
// Holding, what answers counts what left has counted, too.
func (c *Change) fill() {
	old, next, now, tokens := &c.old, &c.Next, c.old.now, math.Inf(1)
	rule := next.plan.Rule
	known, used, asked := old.due()
	asked = poolAfter(asked, old.plan, next.plan)
	kept := old.Subjects()
	for _, s := range kept {
		s.Tally(now)
	}
	if len(kept) > 0 && (slotsOf(kept[0]) != nil) != rule.InFlight {
		kept = nil // tokens and slots have nothing in common
	}
	if len(kept) > 0 && old.Stage != nil {
		tokens = share.FollowDebt(old.plan.Rule.Limit, rule, old.level().Tokens)
	} else if left := old.remains; left != nil {
		tokens = share.FollowDebt(left.ruled, rule, left.tokensAt(now))
	}
	var goesOn *report.Subject // under the algorithm that answers, if that is not among kept
	switch {
	case len(kept) == 1 && len(next.plan.Terms) == 1:
		goesOn = kept[0]
	case len(kept) > 0 && old.plan.goesOn(next.plan):
		goesOn = old.pair[old.plan.Answers]
	}
	for i, t := range next.plan.Terms {
		var s *report.Subject
		if len(kept) > 0 {
			s = old.Find(t.Algorithm)
		}
		charge := used
		if t.Algorithm == asked {
			charge = known
		}
		if s == nil && goesOn != nil && i == next.plan.Answers {
			s = goesOn
			charge = c.unknown(s, t, charge)
			s.Part().SetTerms(now, t) // first, because the old fallback may let all pass
			s.Part().Forget(now, old.hosts)
		}
		if s == nil {
			most := tokens
			if next.plan.Answers < 0 { // what answers after next is capped to what is left then
				most = math.Inf(1)
			}
			s = c.builder.Reporter.NewSubject(now, c.newPart(t, most))
			s.Part().Common().State(old.stated(kept, unit(s)))
		}
		c.adopt(s, t, charge, used)
		if r := share.RateOf(s.Part()); r != nil {
			r.Succeed(used)
		}
		if r := remote.Of(s.Part()); r != nil && used > 0 && old.unasked(s) && i == next.plan.Answers {
			r.TakeOver(now, used)
		}
		next.pair[i] = s
	}
	if c.left != nil && rule.InFlight && !old.keeps(next) {
		c.left.Transfer(slotsOf(next.pair[max(next.plan.Answers, 0)]))
	}
	c.decide(tokens)
}

// unknown returns how many of used tokens the bucket that t asks does not know of, where s
// goes on under t. The owner of a key has one pool for exact, auto and elastic, so it knows
// what it has paid for and what was reported to it.
func (c *Change) unknown(s *report.Subject, t *share.Terms, used int64) int64 {
	now, was := c.old.now, s.Part().Common().Terms()
	if was.Traits.Pooled && t.Traits.Pooled {
		known := s.Known()
		s.SetKnown()
		switch {
		case !was.Reports:
			s.Paid(now)
			return 0
		case s.Part().Common().Granted():
			s.Close(now)
			return 0
		case t.Reports && was.Traits.Asks:
			return 0
		case was.Traits.Asks:
			return min(used, s.Unreported(now))
		}
		if known { // elastic has brought no grant
			used = min(used, s.Unreported(now))
		}
	}
	if t.Algorithm == share.Auto && c.builder.Links[share.Auto] != nil { // reports come beside the charge
		s.Paid(now)
	}
	return used
}

// newPart makes a part under t.
func (c *Change) newPart(t *share.Terms, tokens float64) share.Part {
	salt := c.builder.Reporter.Salt()
	if t.Rule.InFlight {
		return share.NewSlots(c.old.now, c.key, t, c.old.hosts)
	}
	return share.NewRate(c.old.now, c.key, t, c.old.hosts, tokens, salt)
}

// adopt puts s under t, and makes its part one that asks elsewhere if t wants
// that. A bucket elsewhere that was not asked before is charged with what this
// host used lately and it does not know, so that it gives no second burst.
func (c *Change) adopt(s *report.Subject, t *share.Terms, charge, used int64) {
	now, b := c.old.now, c.builder
	s.Part().SetTerms(now, t)
	r := share.RateOf(s.Part())
	if r == nil {
		s.Part().Steer(now, c.old.hosts)
		return
	}
	if p := remote.Of(s.Part()); p != nil && !p.Asks(t.Algorithm) {
		p.Flush(now)
		p.Leave()
		s.SetPart(now, r)
	}
	s.Part().Steer(now, c.old.hosts)
	s.Begin(now)
	if elsewhere := b.Links[t.Algorithm]; elsewhere != nil && s.Part() == share.Part(r) {
		if t.Algorithm == share.Auto {
			s.SetPart(now, remote.NewAuto(r, elsewhere))
		} else {
			s.SetPart(now, remote.New(r, elsewhere))
		}
		if of := stageOf(s); used > 0 && of.Level(now).Remote {
			remote.Of(s.Part()).TakeOver(now, charge)
		}
	}
}

// decide sets what Next decides by: two parts under a migration, or the one that
// answers where nothing measures the other.
func (c *Change) decide(tokens float64) {
	next := &c.Next
	i := next.plan.Answers
	if m := c.old.migration; m != nil && m.stages != nil && !slices.Equal(m.of[:], next.Parts()) {
		m.end(c.old.now, c.old.Holding, next) // first, because a stage may show what it is capped to
	}
	for i, p := range next.Subjects() {
		if r := share.RateOf(p.Part()); r != nil {
			r.SetBeside(c.builder.Migrator.Stages != nil && next.plan.measured() >= 0 && remote.Of(next.pair[1-i].Part()) != nil)
		}
	}
	switch {
	case next.plan.Rule.Migration != nil && c.migrate(tokens):
	case i < 0:
		next.Stage = Unlimited{}
	case slotsOf(next.pair[i]) != nil:
		next.Slots = slotsOf(next.pair[i])
	default:
		next.Stage = stageOf(next.pair[i])
		next.Stage.Cap(c.old.now, tokens)
	}
}

// migrate has the two parts of Next decide in the mode of its rule, and reports whether
// they can.
func (c *Change) migrate(tokens float64) bool {
	next, now, migrator := &c.Next, c.old.now, c.builder.Migrator
	first, second, mode := next.pair[0], next.pair[1], next.plan.Rule.Migration.Mode
	m, of, inFlight := c.old.migration, [2]share.Part{first.Part(), second.Part()}, slotsOf(first) != nil
	switch {
	case m != nil && m.of == of && inFlight:
		m.slots.SetMode(mode)
	case m != nil && m.of == of:
		m.stages.SetMode(now, mode)
	case inFlight && migrator.Slots != nil:
		m = &migration{of: of, slots: migrator.Slots(slotsOf(first), slotsOf(second), mode)}
	case !inFlight && migrator.Stages != nil:
		m = &migration{of: of, stages: migrator.Stages(now, stageOf(first), stageOf(second), mode, c.builder.Hub.Background)}
	default:
		return false
	}
	m.bypass(next.plan.Rule.Bypassed())
	if next.migration = m; inFlight {
		next.Slots = m.slots
		return true
	}
	next.Stage = m.stages
	if i := next.plan.Answers; i >= 0 { // the other part keeps its tokens, as far as it is only measured
		stageOf(next.pair[i]).Cap(now, tokens)
	}
	return true
}
