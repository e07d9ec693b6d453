// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"slices"

	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Holding is what this host holds of one key. The zero Holding is empty.
type Holding struct {
	// Stage is what tokens come from, and Slots what is acquired; both are nil if there are no
	// parts. What decisions and rounds need lies at the beginning.
	Stage stage.Stage

	// pair is what is reported: one part, or the old and the new of a migration.
	pair [2]*report.Subject

	Slots stage.Slots

	plan *Plan // nil if there are no parts

	extras *extras // nil: none of it
}

// extras is what few Holdings need, so that the others pay one word for it. Holdings are copied, so it
// does not change: another one takes its place.
type extras struct {
	migration *migration // nil if none is under way
	carried   *carryover // from earlier Holdings; nil: nothing
}

// withMigration is x with a migration under way.
func (x *extras) withMigration(m *migration) *extras {
	next := x.value()
	next.migration = m
	return &next
}

// withCarryover is x with a carryover; nil changes nothing.
func (x *extras) withCarryover(c *carryover) *extras {
	if c == nil {
		return x
	}
	next := x.value()
	next.carried = c
	return &next
}

// value is what x, which may be nil, has.
func (x *extras) value() extras {
	if x == nil {
		return extras{}
	}
	return *x
}

// carried is what h carries over from earlier Holdings; nil: nothing.
func (h *Holding) carried() *carryover { return h.extras.value().carried }

// Subjects are the parts as they are reported, the old one first.
func (h *Holding) Subjects() []*report.Subject {
	switch {
	case h.pair[0] == nil:
		return nil
	case h.pair[1] == nil:
		return h.pair[:1]
	default:
		return h.pair[:]
	}
}

// Parts are the parts, the old one first.
func (h *Holding) Parts() (all []share.Part) {
	for _, p := range h.Subjects() {
		all = append(all, p.Part())
	}
	return all
}

// Answering is the part that answers, or one of those that a disabled migration has;
// nil without parts.
func (h *Holding) Answering() share.Part {
	if h.pair[0] == nil {
		return nil
	}
	return h.pair[max(h.plan.Answers, 0)].Part()
}

// Chargeable is how many of n tokens the part that answers can be charged with; 0
// without parts. Decisions call it, so it does not read the Part, which a change may replace
// meanwhile.
func (h *Holding) Chargeable(n int64) int64 {
	if h.pair[0] == nil {
		return 0
	}
	return h.pair[max(h.plan.Answers, 0)].Chargeable(n)
}

// CountBeside counts n tokens of an event that the part which answers has not counted, if it is a
// Rate: an override let it through, or it costs more than any may.
func (h *Holding) CountBeside(n int64, bypassed bool) {
	if h.pair[0] != nil {
		if r := h.pair[max(h.plan.Answers, 0)].Rate; r != nil {
			r.CountBeside(n, bypassed)
		}
	}
}

// Has reports whether there are parts.
func (h *Holding) Has() bool { return h.pair[0] != nil }

// Find is the part whose Terms have this name; nil if there is none.
func (h *Holding) Find(name string) *report.Subject {
	for _, p := range h.Subjects() {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// Asking is the Stage by which callers of h ask the remote bucket of this name; nil if there is none. It is safe for
// concurrent use: it reads no Part, which a change may replace meanwhile.
func Asking(h *Holding, name string) *remote.Stage {
	i := slices.IndexFunc(h.Subjects(), func(s *report.Subject) bool { return s.Name() == name })
	if i < 0 {
		return nil
	}
	if m := h.Migration(); m != nil {
		return remote.Of(m.of[i])
	}
	of := h.Stage
	if under, bypassed := of.(Bypassed); bypassed {
		of = under.Stage
	}
	if p, ok := of.(share.RatePart); ok && p.Own() == h.pair[i].Rate {
		return remote.Of(p)
	}
	return nil
}

// Level is what h applies at now.
func (h *Holding) Level(now stage.Instant) stage.Level {
	switch {
	case h.Slots != nil:
		return h.Slots.Level(now)
	case h.Stage != nil:
		return h.Stage.Level(now)
	default:
		return stage.Level{}
	}
}

// Applied is Level, but for a bucket that an override bypasses: that limits nothing.
func (h *Holding) Applied(now stage.Instant) stage.Level {
	if _, bypassed := h.Stage.(Bypassed); bypassed {
		return Unlimited{}.Level(now)
	}
	return h.Level(now)
}

// Used is when a report last found new usage.
func (h *Holding) Used() (used stage.Instant) {
	if h.pair[0] != nil {
		used = h.pair[0].Used()
	}
	if h.pair[1] != nil {
		used = max(used, h.pair[1].Used())
	}
	return used
}

// Full reports whether the buckets are full and no slots are held, now and in
// earlier Holdings.
func (h *Holding) Full(now stage.Instant) bool {
	if !h.carried().empty(now) {
		return false
	}
	for _, p := range h.Subjects() {
		if !p.Idle(now) {
			return false
		}
	}
	return true
}

// Dormant reports whether h has nothing to report and nothing to lose. A migration is
// never dormant.
func (h *Holding) Dormant(now stage.Instant) bool {
	if len(h.Subjects()) != 1 || !h.pair[0].Dormant(now) || !h.carried().empty(now) {
		return false
	}
	of := remote.Of(h.pair[0].Part())
	return of == nil || !of.HasUnsent()
}

// Retire ends h, with which nothing is lost: no key has it any more. Its last usage is
// reported still.
func (h *Holding) Retire(now stage.Instant) {
	for _, p := range h.Subjects() {
		leave(now, p)
		if r := p.Rate; r != nil {
			r.Leave(true)
		}
	}
}

// leave ends p, which no key has any more.
func leave(now stage.Instant, p *report.Subject) {
	p.Retire(now)
	if s := remote.Of(p.Part()); s != nil {
		s.Leave()
	}
}

// State states what the service wants of the key, in events/s or slots; or
// share.Measured.
func (h *Holding) State(now stage.Instant, wants float64) {
	for _, p := range h.Subjects() {
		p.State(now, wants)
	}
	if h.carried() != nil {
		h.carried().wants = noWants
	}
}

// Stated is h, which has no parts, with a demand for parts that are to come.
func (h *Holding) Stated(wants float64) Holding {
	c := carryover{wants: noWants}
	if h.carried() != nil {
		c = *h.carried()
	}
	c.wants = [2]float64{wants, wants}
	next := Holding{Stage: h.Stage}
	next.extras = next.extras.withCarryover(&c)
	return next
}

// Refill fills the buckets of h on this host, and forgives their debts. It returns the
// parts, whose remote buckets are to be filled too. Slots that are held stay held.
func (h *Holding) Refill(now stage.Instant) (elsewhere []share.RatePart) {
	if h.carried() != nil {
		h.carried().account = account{}
	}
	if m := h.Migration(); m != nil && m.stages != nil {
		m.stages.Reset()
	}
	for _, p := range h.Parts() {
		if r, ok := p.(share.RatePart); ok {
			r.Refill(now)
			elsewhere = append(elsewhere, r)
		}
	}
	return elsewhere
}

// answering is the Rate that answers; nil if there is none.
func (h *Holding) answering() *share.Rate {
	if h.pair[0] == nil || h.plan.Answers < 0 {
		return nil
	}
	return h.pair[h.plan.Answers].Rate
}

// allowedBy is what the Rate of s has ever allowed, here and elsewhere.
func allowedBy(s *report.Subject) int64 {
	return s.Rate.Allowed() + s.Part().Admitted()
}

// AnsweringSlots are the slots that answer; nil if there are none.
func (h *Holding) AnsweringSlots() *share.Slots {
	if h.pair[0] == nil || h.plan.Answers < 0 {
		return nil
	}
	return h.pair[h.plan.Answers].Slots()
}

// stageOf is a part as a stage; nil for slots.
func stageOf(s *report.Subject) stage.Stage {
	of, _ := s.Part().(stage.Stage)
	return of
}
