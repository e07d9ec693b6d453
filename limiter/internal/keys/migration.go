// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"slices"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

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
		return m.slots.Counts()
	default:
		return m.stages.Counts()
	}
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
