// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// migration is two parts behind a mode; stages or slots is nil.
type migration struct {
	of      [2]share.Part
	stages  stage.Migration
	slots   stage.SlotsMigration
	counted stage.Divergence // by Diverged

	mode   dynamicconfig.Mode
	rule   string           // its key
	before stage.Divergence // what was counted in earlier modes, and under other rules

	// While bypassed is true, an override lets all slots be taken, and neither part answers:
	// shown is what was counted before, and skipped what was counted under earlier bypasses.
	bypassed       bool
	shown, skipped stage.Divergence
}

// follow puts the mode of rule in force. Under another mode, or another rule, the comparison begins again.
func (m *migration) follow(now stage.Instant, rule *dynamicconfig.Rule) {
	mode := rule.Migration.Mode
	if m.slots != nil {
		m.slots.SetMode(mode)
	} else {
		m.stages.Reset() // the account charges what the other stage missed
		m.stages.SetMode(now, mode)
	}
	if m.mode != mode || m.rule != rule.Key {
		m.mode, m.rule, m.before = mode, rule.Key, m.divergence()
	}
}

// divergence is how the two parts answered so far, in all modes.
func (m *migration) divergence() stage.Divergence {
	if m.bypassed {
		return m.shown
	}
	return m.counts().Since(m.skipped)
}

// counts is divergence with what was counted under bypasses.
func (m *migration) counts() stage.Divergence {
	if m.slots != nil {
		return m.slots.Counts()
	}
	return m.stages.Counts()
}

// bypass says that a bypass begins or ends, or that nothing changes.
func (m *migration) bypass(on bool) {
	switch {
	case on == m.bypassed:
		return
	case on:
		m.shown = m.divergence()
	default:
		m.skipped = m.counts().Since(m.shown)
	}
	m.bypassed = on
}

// Migration is how h's rule goes from one algorithm to another; nil if it does not.
func (h *Holding) Migration() *migration { return h.extras.value().migration }

// Divergence is how the two sides answered in the mode in force, under the rule in force. What was
// compared before says nothing of these. A nil migration has none.
func (m *migration) Divergence() stage.Divergence {
	if m == nil {
		return stage.Divergence{}
	}
	return m.divergence().Since(m.before)
}

// Diverged is how they answered since the last call, in all modes.
func (m *migration) Diverged() stage.Divergence {
	now := m.divergence()
	d := now.Since(m.counted)
	m.counted = now
	return d
}
