// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Config is a configuration made in code. It is checked as strictly as a
// file is. In all of it, zero fields mean the default.
type Config struct {
	// Name is for error messages and people.
	Name string

	// Properties are the cluster-wide settings.
	Properties Properties

	// Defaults are for the fields that rules leave zero: Algorithm or
	// Migration, Parameters, Fallback, SafeCapacity, Lease, IdleAfter,
	// MaxKeys, Private, and those from Refresh on but MaxCost. The other fields must be zero. A
	// rule cannot choose what is zero (FallbackEven, no Overcommit, Priority
	// 0, no Parent) where Defaults has something else.
	Defaults Rule

	// Rules are the limits. Exact keys win over globs; of globs the first
	// that matches wins.
	Rules []Rule

	// Unmatched says what happens to other keys; UnmatchedAllow by default.
	Unmatched Unmatched

	// UnmatchedRule is their rule when Unmatched is UnmatchedRule, and nil
	// otherwise. Its Key is empty or "*".
	UnmatchedRule *Rule

	// Overrides change limits for a time.
	Overrides []Override

	// Values are named settings of services; each is a string, bool, int,
	// int64, float64 or time.Duration.
	Values map[string]any
}

// Snapshot checks c, fills in defaults and compiles the keys. Its error
// joins an *Error for each problem, which names the rule. The Snapshot
// shares nothing with c.
func (c Config) Snapshot() (*Snapshot, error) {
	b := newBuilder(origin{name: c.Name}, new(strictyaml.Problems))
	b.properties(c.Properties, nil)
	b.defaults(statedEntry("defaults", c.Defaults))
	for i, r := range c.Rules {
		who := "rule " + message.Quote(r.Key)
		if r.Key == "" {
			who = fmt.Sprintf("rule number %d", i+1)
		}
		e := statedEntry(who, r)
		e.state("key", mark{})
		e.state("limit", mark{})
		b.rule(e)
	}
	switch {
	case c.Unmatched > UnmatchedRule:
		b.add(mark{}, "unmatched: there is no %v: use %s", c.Unmatched, message.OneOf(rule.UnmatchedNames()))
	case c.Unmatched == UnmatchedRule && c.UnmatchedRule == nil:
		b.add(mark{}, "unmatched: UnmatchedRule is nil: set it, or choose UnmatchedAllow or UnmatchedDeny")
	case c.Unmatched != UnmatchedRule && c.UnmatchedRule != nil:
		b.add(mark{}, "unmatched: UnmatchedRule is set but Unmatched is %v: set Unmatched to UnmatchedRule", c.Unmatched)
	case c.Unmatched == UnmatchedRule:
		r := *c.UnmatchedRule
		if r.Key != "" && r.Key != "*" {
			b.add(mark{}, "unmatched: its rule has the key %s: leave it empty", message.Quote(r.Key))
		}
		e := statedEntry("unmatched", r)
		e.state("limit", mark{})
		b.unmatchedRule(e)
	default:
		b.snapshot.unmatched = c.Unmatched
	}
	for i := range c.Overrides {
		o := &statedOverride{Override: c.Overrides[i], who: fmt.Sprintf("override number %d", i+1), fields: map[string]mark{"limit": {}}}
		b.override(o)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		b.value(name, c.Values[name], mark{})
	}
	return b.finish()
}

// entry is one rule, the defaults, or the unmatched rule, before defaults
// are filled in.
type entry struct {
	who    string // for messages
	rule   Rule
	fields fields // what is stated
	at     mark   // where it begins

	// safeInFlight: the safe capacity is stated in slots.
	safeInFlight bool
}

// field is a stated field of an entry.
type field struct {
	at  mark
	bad bool // already reported, and not in the rule
}

// fields are the fields of an entry by their names in the file. They are few, so a list is
// faster than a map.
type fields []namedField

type namedField struct {
	name string
	field
}

func (f fields) find(name string) int {
	for i := range f {
		if f[i].name == name {
			return i
		}
	}
	return -1
}

// get is the field of a name; the zero field if it is not stated.
func (f fields) get(name string) field {
	if i := f.find(name); i >= 0 {
		return f[i].field
	}
	return field{}
}

func (f *fields) put(name string, v field) {
	if i := f.find(name); i >= 0 {
		(*f)[i].field = v
		return
	}
	*f = append(*f, namedField{name, v})
}

// reserve makes room for n fields.
func (e *entry) reserve(n int) { e.fields = make(fields, 0, n) }

func (e *entry) state(name string, at mark) {
	e.fields.put(name, field{at: at})
}

// spoil marks a stated field as reported, so that nothing else is said of it.
func (e *entry) spoil(name string) {
	e.fields.put(name, field{at: e.fields.get(name).at, bad: true})
}

// has reports whether a field is stated, well or badly.
func (e *entry) has(name string) bool {
	return e.fields.find(name) >= 0
}

// good reports whether a field is stated and nothing is wrong with it yet.
func (e *entry) good(name string) bool {
	i := e.fields.find(name)
	return i >= 0 && !e.fields[i].bad
}

// spoiled reports whether a field is stated and something is wrong with it.
func (e *entry) spoiled(name string) bool { return e.has(name) && !e.good(name) }

// statedEntry is the entry of a rule made in code: what is not zero is
// stated.
func statedEntry(who string, r Rule) *entry {
	r = r.Clone()
	r.Override = nil
	if r.Migration != nil {
		r.Algorithm = ""
	}
	e := &entry{who: who, rule: r, safeInFlight: r.InFlight}
	for name, stated := range map[string]bool{
		"key":           r.Key != "",
		"limit":         r.Limit != 0 || r.InFlight,
		"burst":         r.Burst != 0,
		"algorithm":     r.Algorithm != "",
		"migrate":       r.Migration != nil,
		"fallback":      r.Fallback != FallbackEven,
		"safe_capacity": r.SafeCapacity != 0,
		"lease":         r.Lease != 0,
		"idle_after":    r.IdleAfter != 0,
		"max_keys":      r.MaxKeys != 0,
		"shared":        r.Shared,
		"private":       r.Private,
		"description":   r.Description != "",
		"parameters":    r.Parameters != nil,
		"refresh":       r.Refresh != 0,
		"learning":      r.Learning != 0,
		"recalculate":   r.Recalculate != 0,
		"overcommit":    r.Overcommit != 0,
		"priority":      r.Priority != 0,
		"priorities":    r.Priorities != nil,
		"one_band":      r.OneBand,
		"parent":        r.Parent,
		"max_wait":      r.MaxWait != 0,
		"max_debt":      r.MaxDebt != 0,
		"max_cost":      r.MaxCost != 0,
		"enforce":       r.Enforce != 0,
		"ask_timeout":   r.AskTimeout != 0,
	} {
		if stated {
			e.state(name, mark{})
		}
	}
	return e
}
