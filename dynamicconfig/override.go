// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"slices"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
)

// Ended are the Overrides that hold in old and have ended in new, which is the same
// configuration at a later time.
func Ended(old, new *Snapshot) (ended []Override) {
	for _, i := range old.holds {
		if !slices.Contains(new.holds, i) {
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
			states[i].Idle = targetOf(s, o).idle
		}
	}
	return states
}

// target is what an Override is for.
type target struct {
	all    bool
	number int   // of the rule in the list, -1 for the unmatched one
	key    bool  // the Override is for one key of the rule
	rule   *Rule // nil with all
	text   string
	idle   string // why there is none
}

// targetOf finds what o, an Override of s, is for.
func targetOf(s *Snapshot, o *Override) target {
	if o.All {
		return target{all: true}
	}
	g, err := glob.Compile(o.Key)
	if err != nil {
		return target{idle: err.Error()} // the builder has refused it
	}
	t := target{number: -1}
	if g.Exact() {
		t.text = g.Prefix()
		t.number = s.content.Index.Find(t.text)
		t.key = t.number < 0 || s.content.Rules[t.number].IsGlob() && (!s.content.Rules[t.number].Shared || s.content.Rules[t.number].Key != t.text)
	} else {
		if i, ok := s.content.Patterns[o.Key]; ok {
			t.number = i
		} else if o.Key != "*" || s.content.UnmatchedRule == nil {
			return target{idle: "no rule has this pattern: name the pattern of a rule, or one key"}
		}
	}
	switch {
	case t.number >= 0:
		t.rule = &s.content.Rules[t.number]
	case s.content.UnmatchedRule != nil:
		t.rule = s.content.UnmatchedRule
	default:
		return target{idle: "no rule matches this key: name the pattern of a rule, or a key of one"}
	}
	if t.key && t.rule.Shared && !o.Bypass {
		t.idle = "all keys of " + message.Quote(t.rule.Key) + " have one bucket: override that, or bypass this key"
		return t
	}
	t.idle = o.Unfit(t.rule)
	return t
}

// overlay is what At adds to a Snapshot in which Overrides hold. The zero overlay is of one
// as the configuration states it.
type overlay struct {
	stated *Snapshot        // as the configuration has it
	holds  []int            // which Overrides
	over   map[int]*Rule    // rules, by their number
	keyed  map[string]*Rule // of single keys
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
	at.overlay = overlay{stated: s, holds: holds, over: make(map[int]*Rule), keyed: make(map[string]*Rule)}
	for _, i := range holds {
		if o := &s.content.Overrides[i]; o.All {
			at.overrideAll(o)
		}
	}
	var keys []target
	of := make(map[int]*Override)
	for _, i := range holds {
		o := &s.content.Overrides[i]
		switch t := targetOf(s, o); {
		case t.all || t.idle != "":
		case t.key:
			keys = append(keys, t)
			of[len(keys)-1] = o
		case t.number < 0:
			at.content.UnmatchedRule = o.On(t.rule)
		default:
			at.over[t.number] = o.On(t.rule)
		}
	}
	for i, t := range keys {
		r := of[i].On(t.rule)
		r.Shared = false // the key is let through by itself
		at.keyed[t.text] = r
	}
	return &at
}

// overrideAll puts all rules of s under o.
func (s *Snapshot) overrideAll(o *Override) {
	for i := range s.content.Rules {
		if o.Unfit(&s.content.Rules[i]) == "" {
			s.over[i] = o.On(&s.content.Rules[i])
		}
	}
	switch {
	case s.content.UnmatchedRule != nil && o.Unfit(s.content.UnmatchedRule) == "":
		s.content.UnmatchedRule = o.On(s.content.UnmatchedRule)
	case o.Bypass && s.content.Unmatched == UnmatchedDeny:
		s.content.Unmatched = UnmatchedAllow
	}
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
	for _, i := range s.holds {
		if until := s.content.Overrides[i].Until; !ok || until.Before(end) {
			end, ok = until, true
		}
	}
	return end, ok
}
