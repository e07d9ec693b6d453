// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

// Override changes the limit of a rule, of one key or of all rules until a time, and then
// ends by itself. It has a Factor, or a Limit, or Bypass. See Snapshot.At.
type Override struct {
	// Key is the key of a rule, which is a pattern or an exact key, or else one key that
	// a rule matches: then only this key is meant. Empty with All.
	Key string

	// All: every rule is meant, and keys without a rule are let through by a Bypass. A
	// rule or key that has an Override of its own goes by that one.
	All bool

	// Factor multiplies the limit; above 0, at most MaxFactor. 0: it does not.
	Factor float64

	// Limit is in force instead of the rule's, if Factor is 0 and Bypass is false; see
	// Rule.Limit. It is not for All.
	Limit rate.Limit

	// InFlight: Limit counts slots.
	InFlight bool

	// Bypass: everything is let through.
	Bypass bool

	// Until is when the Override ends. It holds while a host's clock is before Until.
	Until time.Time

	// Author and Reason are for people; 1 to 128, and 1 to 1024 bytes.
	Author, Reason string
}

// Bounds of Overrides.
const (
	// MaxFactor is the largest factor.
	MaxFactor = 1000
	// MaxOverrides is how many Overrides a configuration may have.
	MaxOverrides = 1000

	minFactor = 0.001
	maxAuthor = 128
	maxReason = 1024
)

// bypassed is how a config file writes Bypass.
const bypassed = "bypass"

// Amount is what is in force instead, as a config file writes it: "2x", "500/s",
// "20 in-flight" or "bypass".
func (o *Override) Amount() string {
	switch {
	case o.Bypass:
		return bypassed
	case o.Factor != 0:
		return quantity.Number(o.Factor) + "x"
	}
	return quantity.Amount(o.Limit, o.InFlight)
}

// String says what o does, for people: "2x until 2026-11-23T05:00:00Z by ada: the sale".
func (o *Override) String() string {
	return fmt.Sprintf("%s until %s by %s: %s", o.Amount(), o.Until.UTC().Format(time.RFC3339), o.Author, o.Reason)
}

// Name says which Override o is, in messages: `override of "a*"`.
func (o *Override) Name() string {
	if o.All {
		return "override of all rules"
	}
	return "override of " + message.Quote(o.Key)
}

// unfit is why o can do nothing to r; empty if it can.
func (o *Override) unfit(r *Rule) string {
	switch {
	case o.Bypass:
	case o.Factor != 0:
		if r.Limit == 0 {
			return "the limit is 0, and stays 0 when it is multiplied: write a limit"
		}
	case o.InFlight != r.InFlight:
		return fmt.Sprintf("it counts %s, and the limit counts %s: write both alike", unitOf(o.InFlight), unitOf(r.InFlight))
	}
	return ""
}

// on is r under o, which fits it. Burst, safe capacity and costs change in proportion to
// the limit, so that a bucket fills in the same time.
func (o *Override) on(r *Rule) *Rule {
	over := r.clone()
	over.Override = o
	if o.Bypass {
		return &over
	}
	over.Limit = o.Limit
	factor := o.Factor
	if factor != 0 {
		over.Limit = r.Limit * rate.Limit(factor)
	} else if r.Limit > 0 {
		factor = float64(o.Limit / r.Limit)
	}
	if over.InFlight {
		over.Limit = wholeSlots(over.Limit)
		over.SafeCapacity = wholeSlots(r.SafeCapacity * rate.Limit(factor))
		return &over
	}
	if over.Limit > 0 {
		over.Limit = min(max(over.Limit, slowest), MaxLimit)
	}
	over.SafeCapacity = min(r.SafeCapacity*rate.Limit(factor), MaxLimit)
	switch {
	case over.Limit == 0:
		over.Burst = 0
	case r.Limit == 0:
		over.Burst = max(float64(over.Limit), 1)
	default:
		over.Burst = max(min(r.Burst*factor, largestBurst(float64(over.Limit))), 1)
	}
	if over.MaxCost > 0 {
		over.MaxCost = max(min(r.MaxCost*factor, MaxCost), 1)
		if over.MaxDebt <= 0 {
			over.MaxCost = min(over.MaxCost, over.Burst) // none where nothing is allowed
		}
	}
	return &over
}

// slowest is the lowest limit above 0, in events/s: it fills one token in MaxRefill.
var slowest = rate.Limit(math.Nextafter(1/MaxRefill.Seconds(), 1))

// wholeSlots is a number of slots without its fraction: at least one, unless it is 0.
func wholeSlots(slots rate.Limit) rate.Limit {
	if slots <= 0 {
		return 0
	}
	return rate.Limit(min(max(math.Floor(float64(slots)+1e-9), 1), MaxSlots))
}

// Ended are the Overrides that hold in old and have ended in new, which is the same
// configuration at a later time.
func Ended(old, new *Snapshot) (ended []Override) {
	for _, i := range old.holds {
		if !slices.Contains(new.holds, i) {
			ended = append(ended, old.overrides[i])
		}
	}
	return ended
}

// Overrides are those of the configuration, in its order, whether they hold or not. The
// caller may keep and change the slice.
func (s *Snapshot) Overrides() []Override { return slices.Clone(s.overrides) }

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
	states := make([]OverrideState, len(s.overrides))
	for i := range s.overrides {
		o := &s.overrides[i]
		states[i] = OverrideState{Override: *o, Ended: !now.Before(o.Until)}
		if !states[i].Ended {
			states[i].Idle = s.target(o).idle
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

// target finds what o, an Override of s, is for.
func (s *Snapshot) target(o *Override) target {
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
		t.number = s.index.Find(t.text)
		t.key = t.number < 0 || s.rules[t.number].IsGlob() && (!s.rules[t.number].Shared || s.rules[t.number].Key != t.text)
	} else {
		if i, ok := s.patterns[o.Key]; ok {
			t.number = i
		} else if o.Key != "*" || s.unmatchedRule == nil {
			return target{idle: "no rule has this pattern: name the pattern of a rule, or one key"}
		}
	}
	switch {
	case t.number >= 0:
		t.rule = &s.rules[t.number]
	case s.unmatchedRule != nil:
		t.rule = s.unmatchedRule
	default:
		return target{idle: "no rule matches this key: name the pattern of a rule, or a key of one"}
	}
	if t.key && t.rule.Shared && !o.Bypass {
		t.idle = "all keys of " + message.Quote(t.rule.Key) + " have one bucket: override that, or bypass this key"
		return t
	}
	t.idle = o.unfit(t.rule)
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
	for i := range s.overrides {
		if now.Before(s.overrides[i].Until) {
			holds = append(holds, i)
		}
	}
	if len(holds) == 0 {
		return s
	}
	at := *s
	at.overlay = overlay{stated: s, holds: holds, over: make(map[int]*Rule), keyed: make(map[string]*Rule)}
	for _, i := range holds {
		if o := &s.overrides[i]; o.All {
			at.overrideAll(o)
		}
	}
	var keys []target
	of := make(map[int]*Override)
	for _, i := range holds {
		o := &s.overrides[i]
		switch t := s.target(o); {
		case t.all || t.idle != "":
		case t.key:
			keys = append(keys, t)
			of[len(keys)-1] = o
		case t.number < 0:
			at.unmatchedRule = o.on(t.rule)
		default:
			at.over[t.number] = o.on(t.rule)
		}
	}
	for i, t := range keys {
		r := of[i].on(t.rule)
		r.Shared = false // the key is let through by itself
		at.keyed[t.text] = r
	}
	return &at
}

// overrideAll puts all rules of s under o.
func (s *Snapshot) overrideAll(o *Override) {
	for i := range s.rules {
		if o.unfit(&s.rules[i]) == "" {
			s.over[i] = o.on(&s.rules[i])
		}
	}
	switch {
	case s.unmatchedRule != nil && o.unfit(s.unmatchedRule) == "":
		s.unmatchedRule = o.on(s.unmatchedRule)
	case o.Bypass && s.unmatched == UnmatchedDeny:
		s.unmatched = UnmatchedAllow
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
func (s *Snapshot) nextEnd() (end time.Time, ok bool) {
	for _, i := range s.holds {
		if until := s.overrides[i].Until; !ok || until.Before(end) {
			end, ok = until, true
		}
	}
	return end, ok
}
