// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"slices"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/compose"
	"github.com/headgate/headgate/dynamicconfig/internal/overlay"
)

// Ended are the Overrides that hold in old and have ended in new, which is the same
// configuration at a later time.
func Ended(old, new *Snapshot) (ended []Override) {
	for _, i := range old.overlay.Holds {
		if !slices.Contains(new.overlay.Holds, i) {
			ended = append(ended, old.content.Overrides[i])
		}
	}
	return ended
}

// Overrides are those of the configuration, in its order, whether they hold or not. The
// caller may keep and change the slice.
func (s *Snapshot) Overrides() []Override { return slices.Clone(s.content.Overrides) }

// OverrideState is what has become of an Override.
type OverrideState struct {
	Override

	// Ended: its time is over.
	Ended bool

	// Idle is why it changes nothing although it has not ended, such as that no rule
	// matches its key; empty if it is in force.
	Idle string
}

// OverrideStates are the Overrides as of now, in the order of the configuration.
func (s *Snapshot) OverrideStates(now time.Time) []OverrideState {
	s = s.Stated()
	states := make([]OverrideState, len(s.content.Overrides))
	for i := range s.content.Overrides {
		o := &s.content.Overrides[i]
		states[i] = OverrideState{Override: *o, Ended: !now.Before(o.Until)}
		if !states[i].Ended {
			states[i].Idle = overlay.TargetOf(&s.content, o).Idle
		}
	}
	return states
}

// At is s as it is in force at now: an Override that holds is part of the rule that it is
// for, and Match finds that rule. If none holds, At is Stated. Rules that have no Override
// are the same pointers at all times. Version does not depend on the time.
//
// Of several Overrides, that of the key itself counts before that of its rule, and that
// before one of All; they are not combined.
func (s *Snapshot) At(now time.Time) *Snapshot {
	s = s.Stated()
	var holds []int
	for i := range s.content.Overrides {
		if now.Before(s.content.Overrides[i].Until) {
			holds = append(holds, i)
		}
	}
	if len(holds) == 0 {
		return s
	}
	at := *s
	at.stated = s
	at.overlay, at.content = overlay.Of(s.content, holds)
	return &at
}

// Stated is s as the configuration states it, without any Override. It is for those who
// compare or change configurations.
func (s *Snapshot) Stated() *Snapshot {
	if s.stated != nil {
		return s.stated
	}
	return s
}

// nextEnd is when the first of the Overrides that hold in s ends; false if none holds.
func nextEnd(s *Snapshot) (end time.Time, ok bool) {
	for _, i := range s.overlay.Holds {
		if until := s.content.Overrides[i].Until; !ok || until.Before(end) {
			end, ok = until, true
		}
	}
	return end, ok
}

// OverridesYAML is the section of a config file that has these overrides.
func OverridesYAML(overrides []Override) []byte { return compose.Overrides(overrides) }
