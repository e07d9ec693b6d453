// SPDX-License-Identifier: Apache-2.0

package build

import (
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

const (
	defaultInFlight    = "proportional-share"
	defaultRecalculate = 5 * time.Second

	maxParameter = 1024 // bytes of one parameter's value
)

// named is an algorithm and the field that names it.
type named struct{ field, algorithm string }

// builtinThat are the names of the algorithms of headgate that are so, sorted.
func builtinThat(so func(rule.Traits) bool) []string {
	return slices.DeleteFunc(rule.BuiltIn(), func(name string) bool { t, _ := rule.TraitsOf(name); return !so(t) })
}

// algorithmsOf are those of a rule.
func algorithmsOf(r *rule.Rule) []named {
	if m := r.Migration; m != nil {
		return []named{{"migrate.from", m.From}, {"migrate.to", m.To}}
	}
	return []named{{"algorithm", r.Algorithm}}
}

// sharesSlots reports whether the defaults r have algorithms for slots.
func sharesSlots(r *rule.Rule) bool {
	return !slices.ContainsFunc(algorithmsOf(r), func(a named) bool { t, _ := rule.TraitsOf(a.algorithm); return !t.Slots })
}

func checkSlots(name string, n float64, report func(name, format string, args ...any)) {
	if !(n >= 0 && n <= rule.MaxSlots && n == float64(int64(n))) {
		report(name, "%s slots is out of range: use a whole number, 0 to %d", quantity.Number(n), rule.MaxSlots)
	}
}

// leasing reports what is wrong with the stated fields about leases,
// each by itself.
func (c checker) leasing() {
	e, r := c.e, &c.e.Rule
	stated := func(name string, d *time.Duration, none bool) {
		switch {
		case !e.good(name) || none && *d == rule.None:
		case *d <= 0 || *d > maxDuration:
			from := "more than 0 and"
			if none {
				from = "0s for none, or"
			}
			c.report(name, "%s is out of range: use %s at most %s", quantity.Duration(*d), from, quantity.Duration(maxDuration))
		}
	}
	stated("refresh", &r.Refresh, false)
	stated("learning", &r.Learning, true)
	stated("recalculate", &r.Recalculate, true)
	if e.good("overcommit") && !(r.Overcommit >= 0 && r.Overcommit <= 1) {
		c.report("overcommit", "%s%% is out of range: use 0%% to 100%%", quantity.Number(r.Overcommit*100))
	}
	if e.good("parameters") {
		checkParameters(r.Parameters, c.report)
	}
	if e.good("priorities") {
		c.priorities()
	}
}

func checkParameters(p map[string]string, report func(name, format string, args ...any)) {
	if len(p) > rule.MaxParameters {
		report("parameters", "there are %d: use at most %d", len(p), rule.MaxParameters)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if name == "" || len(name) > maxName {
			report("parameters", "the name %s has %d bytes: use 1 to %d", message.Quote(name), len(name), maxName)
		}
		if n := len(p[name]); n > maxParameter {
			report("parameters", "%s has %d bytes: use at most %d", message.Quote(name), n, maxParameter)
		}
	}
}

func (c checker) priorities() {
	e := c.e
	p := e.Rule.Priorities
	if len(p) > rule.MaxBands {
		c.report("priorities", "there are %d: use at most %d", len(p), rule.MaxBands)
		return
	}
	for _, band := range slices.Sorted(maps.Keys(p)) {
		if name := p[band]; rule.CheckNamed(name) != nil || !rule.Leases(name) {
			c.note(BandField(band), "%s does not share within a band: use none, static, proportional-share or fair-share", message.Quote(name))
			e.Spoil("priorities")
		}
	}
}

// fillLeasing completes the fields about leases from the defaults, and
// refuses those that do not fit the rest of the rule. Its algorithm and its
// lease are known by now.
func (b *Builder) fillLeasing(e *Entry, r *rule.Rule) {
	base := b.base
	leased := false
	for _, a := range algorithmsOf(r) {
		leased = leased || rule.Leases(a.algorithm)
		if t, ok := rule.TraitsOf(a.algorithm); ok && r.InFlight && !t.Slots && (e.good(a.field) || e.good("migrate")) {
			b.Report(e, a.field, "%s shares rates and not slots: use %s", a.algorithm, message.OneOf(builtinThat(func(t rule.Traits) bool { return t.Slots })))
		}
	}
	b.fillTimes(e, r)
	if !e.Has("priority") && base.good("priority") {
		r.Priority = base.Rule.Priority
	}
	if !e.Has("parent") && base.good("parent") {
		r.Parent = base.Rule.Parent
	}
	if !e.Has("overcommit") && base.good("overcommit") && leased {
		r.Overcommit = base.Rule.Overcommit
	}
	if !e.Has("one_band") && base.good("one_band") && leased {
		r.OneBand = base.Rule.OneBand
	}
	from := e
	if !e.Has("priorities") && base.good("priorities") && leased {
		from, r.Priorities = base, base.Rule.Priorities
	}
	if r.Priorities = maps.Clone(r.Priorities); from.good("priorities") {
		for _, band := range slices.Sorted(maps.Keys(r.Priorities)) {
			b.run.uses = append(b.run.uses, use{Use: Use{Algorithm: r.Priorities[band], Who: e.Who, At: from.fields.get(BandField(band)).At}, inDefaults: from == base})
		}
	}
	for _, name := range []string{"overcommit", "priorities", "one_band"} {
		if e.good(name) && !leased {
			b.Report(e, name, "is for an algorithm that leases the limit out, and this rule's does not: use none, static, proportional-share or fair-share, or remove it")
		}
	}
	if e.good("parameters") && r.Migration != nil {
		b.Report(e, "parameters", "are for one algorithm, and a migration has two: remove them, or the migration")
	}
}

// fillTimes completes the durations about leases. Where a default does not
// fit a rule's short lease, it is cut; what is stated is refused.
func (b *Builder) fillTimes(e *Entry, r *rule.Rule) {
	fill := func(name string, d *time.Duration, base, byDefault, most time.Duration, what string) {
		switch {
		case !e.Has(name):
			if *d = byDefault; b.base.good(name) {
				*d = base
			}
			*d = min(*d, most)
		case e.good(name) && *d > most && !e.fields.get("lease").Bad:
			b.Report(e, name, "%s is too long: use at most %s, which is %s", quantity.Duration(*d), what, quantity.Duration(most))
		}
	}
	base := &b.base.Rule
	fill("refresh", &r.Refresh, base.Refresh, b.content.Properties.UpdateInterval, r.Lease/2, "half of lease")
	fill("recalculate", &r.Recalculate, base.Recalculate, defaultRecalculate, r.Lease, "lease")
	fill("learning", &r.Learning, base.Learning, r.Lease, maxDuration, "a day")
}
