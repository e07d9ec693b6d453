// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// state is what a Limiter decides by. It does not change once it is published,
// but for what is atomic: a change of rules makes another one.
type state struct {
	// rate is set where the bucket alone decides: no terms, no shadow, no
	// listener. Then Allow goes straight to it.
	rate *share.Rate

	// stage is what tokens come from, and slots what is acquired. Without a
	// stage, no token is to be had, because of reason.
	stage  stage.Stage
	slots  stage.Slots
	reason stage.Reason

	// asleep: nobody used the key lately, and it only keeps its place.
	asleep bool

	touched atomic.Bool // since the last report, if there are no parts
	used    stage.Instant

	rule *ruleState // nil if the Limiter has no Group

	// forward decides instead: the Limiter of the key that is live, or the
	// common one of a shared rule.
	forward *Limiter

	// pair is what is reported: one part, or the old and the new of a migration.
	pair      [2]*report.Subject
	migration *migration
}

// migration is two parts behind a mode; stages or slots is nil.
type migration struct {
	of      [2]share.Part
	stages  Migration
	slots   SlotsMigration
	counted Divergence // of stages, as of the last report
}

// parts are what is reported, the old one first.
func (st *state) parts() []*report.Subject {
	switch {
	case st.pair[0] == nil:
		return nil
	case st.pair[1] == nil:
		return st.pair[:1]
	default:
		return st.pair[:]
	}
}

// terms are the rule's; nil is none.
func (st *state) terms() *terms {
	if st.rule == nil {
		return nil
	}
	return st.rule.terms
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

// level is what st applies at now.
func (st *state) level(now stage.Instant) stage.Level {
	switch {
	case st.slots != nil:
		return st.slots.Level(now)
	case st.stage != nil:
		return st.stage.Level(now)
	default:
		return stage.Level{}
	}
}

// live reports whether st decides itself.
func (st *state) live() bool { return st != nil && !st.asleep && st.forward == nil }

// fast returns the key's slots if no migration is under way, else nil.
// TryAcquire tries them before it reads the clock.
func (st *state) fast() *share.Slots {
	s, _ := st.slots.(*share.Slots)
	return s
}

// plain sets rate if the bucket alone decides.
func (st *state) plain(events bool) {
	if events || len(st.parts()) != 1 || st.terms() != nil {
		return
	}
	switch s := st.stage.(type) {
	case *share.Rate:
		st.rate = s
	case *remote.Auto:
		if !s.Asking() {
			st.rate = s.Rate
		}
	}
}

// find is the part of st under an algorithm; nil if there is none.
func (st *state) find(algorithm string) *report.Subject {
	for _, p := range st.parts() {
		if p.Part().Common().Terms().Algorithm == algorithm {
			return p
		}
	}
	return nil
}

// lastUsed is when a report last found new usage.
func (st *state) lastUsed() stage.Instant {
	used := st.used
	for _, p := range st.parts() {
		used = max(used, p.Used())
	}
	return used
}

// current is what decides for l at now.
func (l *Limiter) current(now stage.Instant) *state {
	st := l.state.Load()
	switch {
	case st == nil || st.asleep:
	case st.forward != nil:
		st.touch()
		to := st.forward.state.Load()
		if to != nil && to.forward != nil { // the key is one of a shared rule
			to.touch()
			to = to.forward.state.Load()
		}
		switch {
		case !to.live():
		case to.pair[0] != nil:
			return to
		case !to.rule.stale(to): // it has no usage that would say that it is in use
			to.touch()
			return to
		}
	case st.pair[0] != nil || st.rule == nil:
		return st
	case !st.rule.stale(st) && (st.reason != stage.TooManyKeys || l.group.table.Get(l.key) == nil): // another Limiter of the key may be live
		st.touch()
		return st
	}
	return l.group.attach(now, l)
}

// touch notes that a key without parts is used. It writes only what is news.
func (st *state) touch() {
	if !st.touched.Load() {
		st.touched.Store(true)
	}
}

// Migration answers with one of two stages and may measure the other.
type Migration interface {
	stage.Stage

	// SetMode changes which stage answers, and whether the other is measured.
	// The one that begins to answer has no more tokens than the one that ends.
	SetMode(now stage.Instant, mode dynamicconfig.Mode)

	// Divergence is how the two answered so far while both were asked.
	Divergence() Divergence
}

// SlotsMigration is Migration for slots in flight.
type SlotsMigration interface {
	stage.Slots
	SetMode(mode dynamicconfig.Mode)
}

// Divergence is the cost that was asked for while both stages of a migration
// were asked, by which of them allowed it.
type Divergence struct {
	Both, OnlyOld, OnlyNew, Neither int64

	// Skipped is the cost for which a remote stage was not measured, because
	// too much ran in the background.
	Skipped int64
}

// Migrator makes Migrations: package shadow has one.
type Migrator struct {
	// Stages returns a Migration that is in mode. background runs what takes
	// time, or returns false if too much is under way.
	Stages func(now stage.Instant, old, new stage.Stage, mode dynamicconfig.Mode, background func(func()) bool) Migration

	// Slots is Stages for slots in flight.
	Slots func(old, new stage.Slots, mode dynamicconfig.Mode) SlotsMigration
}
