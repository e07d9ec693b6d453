// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/brief"
	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/compose"
)

// Change is one difference between two Snapshots.
type Change struct {
	Kind ChangeKind

	// Section is where a config file has it: "limits", "defaults", "unmatched",
	// "overrides" or "properties".
	Section string

	// Name is the key of a rule or of an override, or the name of a property; else empty.
	Name string

	// Fields are what differs in a rule or an override that is in both, or in the
	// defaults, and what an override that was added says.
	Fields []FieldChange
}

// ChangeKind is what happened to a rule or another part.
type ChangeKind uint8

// The kinds of changes.
const (
	Added ChangeKind = iota
	Removed
	Changed
	// Reordered means that rules which are in both stand in another order, so
	// that another glob may match first. Such a Change has no Name.
	Reordered
)

var changeNames = []string{"added", "removed", "changed", "reordered"}

// String is the kind in words.
func (k ChangeKind) String() string {
	if int(k) < len(changeNames) {
		return changeNames[k]
	}
	return fmt.Sprintf("change(%d)", k)
}

// FieldChange is one field whose value differs. The values are as in
// Rule.Fields; nil where the field is not stated.
type FieldChange struct {
	Name     string
	From, To any
}

// Diff returns what differs between old and new: the defaults, what happens to
// unmatched keys, the rules in the order of new, the rules that were removed in
// the order of old, and the properties. The values of properties are not in it,
// because a service may keep secrets there. Diff returns nothing if both have
// the same Version.
func Diff(old, new *Snapshot) []Change {
	old, new = old.Stated(), new.Stated()
	if old.version == new.version {
		return nil
	}
	var changes []Change
	if fields := diffFields(compose.Defaults(&old.content), compose.Defaults(&new.content)); len(fields) > 0 {
		changes = append(changes, Change{Kind: Changed, Section: "defaults", Fields: fields})
	}
	if fields := diffFields(compose.Unmatched(&old.content), compose.Unmatched(&new.content)); len(fields) > 0 {
		changes = append(changes, Change{Kind: Changed, Section: "unmatched", Fields: fields})
	}
	changes = append(changes, diffRules(old.content.Rules, new.content.Rules, old.sums, new.sums)...)
	changes = append(changes, diffOverrides(old.content.Overrides, new.content.Overrides)...)
	names := slices.Values(slices.Concat(old.Values().Names(), new.Values().Names()))
	for _, name := range slices.Compact(slices.Sorted(names)) {
		before, had := old.Values().Lookup(name)
		after, has := new.Values().Lookup(name)
		if had != has || before != after {
			changes = append(changes, Change{Kind: kindOf(had, has), Section: "properties", Name: name})
		}
	}
	return changes
}

// Fresh are the rules that Each of s gives and Each of old does not, as pointers: of a large text, what a change touches.
func Fresh(s, old *Snapshot) []*Rule {
	return build.Fresh(slices.Collect(s.Each()), slices.Collect(old.Each()))
}

func kindOf(had, has bool) ChangeKind {
	switch {
	case !had:
		return Added
	case !has:
		return Removed
	}
	return Changed
}

func diffRules(old, new []*Rule, oldSums, newSums []uint64) (changes []Change) {
	begin, end := 0, 0 // rules that are the same there
	for begin < min(len(old), len(new)) && oldSums[begin] == newSums[begin] {
		begin++
	}
	for end < min(len(old), len(new))-begin && oldSums[len(old)-1-end] == newSums[len(new)-1-end] {
		end++
	}
	old, new = old[begin:len(old)-end], new[begin:len(new)-end]
	oldSums, newSums = oldSums[begin:], newSums[begin:]
	before := make(map[string]int, len(old))
	for i := range old {
		before[old[i].Key] = i
	}
	last, reordered := -1, false
	for i, r := range new {
		at, had := before[r.Key]
		if !had {
			changes = append(changes, Change{Kind: Added, Section: "limits", Name: r.Key})
			continue
		}
		delete(before, r.Key)
		reordered = reordered || at < last
		last = at
		if oldSums[at] == newSums[i] {
			continue
		}
		if fields := diffFields(old[at].Fields(), r.Fields()); len(fields) > 0 {
			changes = append(changes, Change{Kind: Changed, Section: "limits", Name: r.Key, Fields: fields})
		}
	}
	for i := range old {
		if _, gone := before[old[i].Key]; gone {
			changes = append(changes, Change{Kind: Removed, Section: "limits", Name: old[i].Key})
		}
	}
	if reordered {
		changes = append(changes, Change{Kind: Reordered, Section: "limits"})
	}
	return changes
}

func diffOverrides(old, new []Override) (changes []Change) {
	find := func(in []Override, of *Override) int {
		return slices.IndexFunc(in, func(o Override) bool { return o.Key == of.Key && o.Bypass == of.Bypass })
	}
	for i := range new {
		o := &new[i]
		if before := find(old, o); before < 0 {
			changes = append(changes, Change{Kind: Added, Section: "overrides", Name: o.Key, Fields: diffFields(maps.All(map[string]any(nil)), o.Fields())})
		} else if fields := diffFields(old[before].Fields(), o.Fields()); len(fields) > 0 {
			changes = append(changes, Change{Kind: Changed, Section: "overrides", Name: o.Key, Fields: fields})
		}
	}
	for i := range old {
		if find(new, &old[i]) < 0 {
			changes = append(changes, Change{Kind: Removed, Section: "overrides", Name: old[i].Key})
		}
	}
	return changes
}

// diffFields returns the fields that differ, in the order of old, and then those
// that only new has.
func diffFields(old, new iter.Seq2[string, any]) (changes []FieldChange) {
	after := maps.Collect(new)
	for name, from := range old {
		to := after[name]
		delete(after, name)
		if !reflect.DeepEqual(from, to) {
			changes = append(changes, FieldChange{name, from, to})
		}
	}
	for name := range new {
		if to, added := after[name]; added {
			changes = append(changes, FieldChange{name, nil, to})
		}
	}
	return changes
}

// Bounds of what a log line says of changes.
const (
	maxChangesShown = 10
	maxFieldsShown  = 6
	maxNameShown    = 100 // bytes
)

// String is c in words, at most about 700 bytes: `rule "k": limit 100/s → 50/s,
// burst 100 → 50`. It names at most six fields.
func (c Change) String() string {
	what := c.Section
	switch {
	case c.Kind == Reordered:
		return "order of the rules changed"
	case c.Section == "limits":
		what = fmt.Sprintf("rule %q", brief.Cut(c.Name, maxNameShown))
	case c.Section == "overrides" && c.Name == "":
		what = "override of all rules"
	case c.Section == "overrides":
		what = fmt.Sprintf("override of %q", brief.Cut(c.Name, maxNameShown))
	case c.Name != "":
		what = fmt.Sprintf("property %q", brief.Cut(c.Name, maxNameShown))
	}
	if len(c.Fields) == 0 {
		return what + " " + c.Kind.String()
	}
	if c.Kind == Added {
		var says []string
		for _, f := range c.Fields {
			if f.Name != "key" {
				says = append(says, f.Name+" "+brief.Value(f.To))
			}
		}
		return what + " added: " + strings.Join(says, ", ")
	}
	return what + ": " + brief.List(c.Fields, maxFieldsShown, ", ")
}

// String is f in words: `limit 100/s → 50/s`. Of two maps it shows the parts that
// differ: `migrate {mode: old} → {mode: new}`.
func (f FieldChange) String() string {
	from, to := f.From, f.To
	before, was := from.(map[string]string)
	after, is := to.(map[string]string)
	if was && is {
		from, to = brief.Without(before, after), brief.Without(after, before)
	}
	return f.Name + " " + brief.Value(from) + " → " + brief.Value(to)
}
