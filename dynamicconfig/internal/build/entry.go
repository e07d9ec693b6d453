// SPDX-License-Identifier: Apache-2.0

package build

import (
	"strconv"

	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Entry is one rule, the defaults, or the unmatched rule, before defaults
// are filled in.
type Entry struct {
	Who  string // for messages
	Rule rule.Rule
	At   Mark // where it begins

	// SafeInFlight: the safe capacity is stated in slots.
	SafeInFlight bool

	fields fields // what is stated
}

// Field is a stated field.
type Field struct {
	At  Mark
	Bad bool // already reported, and not in the rule
}

// fields are the fields of an entry by their names in the file. They are few, so a list is
// faster than a map.
type fields []namedField

type namedField struct {
	name string
	Field
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
func (f fields) get(name string) Field {
	if i := f.find(name); i >= 0 {
		return f[i].Field
	}
	return Field{}
}

func (f *fields) put(name string, v Field) {
	if i := f.find(name); i >= 0 {
		(*f)[i].Field = v
		return
	}
	*f = append(*f, namedField{name, v})
}

// Reserve makes room for n fields.
func (e *Entry) Reserve(n int) { e.fields = make(fields, 0, n) }

// State has a field stated, at its place.
func (e *Entry) State(name string, at Mark) {
	e.fields.put(name, Field{At: at})
}

// Spoil marks a stated field as reported, so that nothing else is said of it.
func (e *Entry) Spoil(name string) {
	e.fields.put(name, Field{At: e.fields.get(name).At, Bad: true})
}

// Has reports whether a field is stated, well or badly.
func (e *Entry) Has(name string) bool {
	return e.fields.find(name) >= 0
}

// good reports whether a field is stated and nothing is wrong with it yet.
func (e *Entry) good(name string) bool {
	i := e.fields.find(name)
	return i >= 0 && !e.fields[i].Bad
}

// spoiled reports whether a field is stated and something is wrong with it.
func (e *Entry) spoiled(name string) bool { return e.Has(name) && !e.good(name) }

// Stated is the entry of a rule made in code: what is not zero is
// stated.
func Stated(who string, r rule.Rule) *Entry {
	r = r.Clone()
	r.Override = nil
	if r.Migration != nil {
		r.Algorithm = ""
	}
	e := &Entry{Who: who, Rule: r, SafeInFlight: r.InFlight}
	for name, stated := range map[string]bool{
		"key":           r.Key != "",
		"limit":         r.Limit != 0 || r.InFlight,
		"burst":         r.Burst != 0,
		"algorithm":     r.Algorithm != "",
		"migrate":       r.Migration != nil,
		"fallback":      r.Fallback != rule.FallbackEven,
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
			e.State(name, Mark{})
		}
	}
	return e
}

// BandField names the algorithm of one band among an entry's fields.
func BandField(band int64) string { return "priorities." + strconv.FormatInt(band, 10) }
