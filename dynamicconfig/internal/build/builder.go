// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Builder gathers a Content out of entries, whether they come from a file or from code.
type Builder struct {
	runs

	problems *strictyaml.Problems
	base     *Entry // the defaults
	places   []Mark // of the rules, for repeats
}

// New is an empty Builder, which reports to p.
func New(p *strictyaml.Problems) *Builder {
	content := &Content{Keys: &Keys{Patterns: make(map[string]int)}}
	return &Builder{runs: runs{content: content, run: new(Run)}, problems: p, base: &Entry{Who: "defaults"}}
}

// Grow makes room for n more rules.
func (b *Builder) Grow(n int) {
	b.content.Rules = slices.Grow(b.content.Rules, n)
	b.content.Places = slices.Grow(b.content.Places, n)
	if !b.late {
		b.places = slices.Grow(b.places, n)
		b.content.Keys.Index.Grow(n)
	}
}

// Report says what is wrong with one field of e.
func (b *Builder) Report(e *Entry, name, format string, args ...any) {
	at := e.At
	if e.Has(name) {
		at = e.fields.get(name).At
	}
	b.problems.Add(at, "%s", e.Who+": "+name+": "+fmt.Sprintf(format, args...))
}

// ofOneRule are the fields that no other rule can have from the defaults.
var ofOneRule = []string{"key", "limit", "burst", "max_cost", "shared", "description"}

// OfOneRule reports whether the field belongs to one rule, and not to the defaults.
func OfOneRule(name string) bool { return slices.Contains(ofOneRule, name) }

// Defaults takes the defaults of all rules.
func (b *Builder) Defaults(e *Entry) {
	for _, name := range ofOneRule {
		if e.good(name) {
			b.Report(e, name, "belongs to one rule: move it there")
			e.Spoil(name)
		}
	}
	checker{b, e}.all()
	lease := 10 * b.content.Properties.UpdateInterval
	if e.good("lease") {
		lease = e.Rule.Lease
	}
	if e.good("refresh") && e.Rule.Refresh > lease/2 {
		b.Report(e, "refresh", "%s is too long: use at most half of lease, which is %s", quantity.Duration(e.Rule.Refresh), quantity.Duration(lease/2))
	}
	if e.good("parameters") && e.Has("migrate") {
		b.Report(e, "parameters", "are for one algorithm, and a migration has two: remove them, or the migration")
	}
	b.content.Private = e.good("private") && e.Rule.Private
	b.base, b.content.base = e, e
}

// Rule takes the next rule.
func (b *Builder) Rule(e *Entry) {
	checker{b, e}.all()
	r := b.fill(e)
	if !e.Has("key") {
		b.problems.Add(e.At, "%s: has no key: add key: \"group:name\"", e.Who)
	}
	i := len(b.content.Rules) + len(b.run.Rules)
	b.run.Rules = append(b.run.Rules, r)
	b.run.places = append(b.run.places, e.fields.get("key").At)
	var g *glob.Glob
	if e.good("key") {
		g = b.key(e)
	}
	if b.run.globs = append(b.run.globs, g); g != nil && g.Exact() {
		b.run.globs[len(b.run.globs)-1] = nil // it is made again faster than kept
	}
	if !b.late {
		b.places = append(b.places, e.At)
		b.find(i, g, e)
	}
}

// key compiles the key of a rule; nil if it has a mistake.
func (b *Builder) key(e *Entry) *glob.Glob {
	key := e.Rule.Key
	if key == "" || len(key) > rule.MaxKeyLength {
		b.Report(e, "key", "has %d bytes: use 1 to %d", len(key), rule.MaxKeyLength)
		return nil
	}
	g, err := glob.Compile(key)
	if err != nil {
		b.Report(e, "key", "%v", err)
		return nil
	}
	if g.Exact() && e.Rule.Shared && e.good("shared") {
		b.Report(e, "shared", "has no meaning for one exact key: remove it, or make the key a glob")
	}
	if g.Exact() && e.Rule.Private && e.good("private") {
		b.Report(e, "private", "has no meaning for one exact key, which this file shows: remove it, or make the key a glob")
	}
	return g
}

// find makes rule i findable by its key; g is nil if that has a mistake.
func (b *Builder) find(i int, g *glob.Glob, e *Entry) {
	if g == nil {
		return
	}
	taken := b.content.Keys.add(i, g, &e.Rule)
	if taken >= 0 {
		where := fmt.Sprintf("rule number %d", taken+1)
		if at := b.places[taken]; at.Line > 0 {
			where = fmt.Sprintf("the rule in line %d", at.Line)
		}
		b.Report(e, "key", "%s has the same key: remove one of the two", where)
	}
}

// UnmatchedRule takes the rule of unmatched keys.
func (b *Builder) UnmatchedRule(e *Entry) {
	checker{b, e}.all()
	r := b.fill(e)
	r.Key = "*"
	b.content.Unmatched = rule.UnmatchedRule
	b.content.UnmatchedRule = &r
}

// fill completes a checked entry from the defaults.
func (b *Builder) fill(e *Entry) rule.Rule {
	r, base := e.Rule, &b.base.Rule
	if !e.Has("limit") {
		b.problems.Add(e.At, "%s: has no limit: add limit: 1000/s, or what it is to be", e.Who)
	}
	// A bad burst or limit was reported; else leave Limit's own.
	if !e.Has("burst") && e.good("limit") && r.Limit > 0 && !r.InFlight {
		r.Burst = max(float64(r.Limit), 1)
	}
	b.fillAlgorithm(e, &r)
	if !e.Has("fallback") && b.base.good("fallback") {
		r.Fallback = base.Fallback
	}
	b.fillSafeCapacity(e, &r)
	interval := b.content.Properties.UpdateInterval
	if !e.good("lease") {
		r.Lease = 10 * interval
		if b.base.good("lease") {
			r.Lease = base.Lease
		}
	}
	b.fillLeasing(e, &r)
	b.fillTerms(e, &r)
	if !e.Has("idle_after") {
		r.IdleAfter = 5 * interval
		if b.base.good("idle_after") {
			r.IdleAfter = base.IdleAfter
		}
	}
	if !e.Has("private") && b.base.good("private") {
		r.Private = base.Private
	}
	if !e.Has("max_keys") {
		r.MaxKeys = defaultMaxKeys
		if b.base.good("max_keys") {
			r.MaxKeys = base.MaxKeys
		}
	}
	return r
}

// fillAlgorithm takes the rule's own algorithm or migration, else that of
// the defaults if it can share what the rule limits, and keeps where each
// name stands for Check. Parameters go with the algorithm that they are for.
func (b *Builder) fillAlgorithm(e *Entry, r *rule.Rule) {
	from := e
	if !e.Has("algorithm") && !e.Has("migrate") {
		from = b.base
		r.Algorithm = defaultAlgorithm
		if r.InFlight {
			r.Algorithm = defaultInFlight
		}
		fits := !r.InFlight || sharesSlots(&from.Rule)
		if fits && from.good("algorithm") {
			r.Algorithm = from.Rule.Algorithm
		}
		if fits && from.good("migrate") {
			m := *from.Rule.Migration
			r.Migration = &m
		}
		if fits && !e.Has("parameters") && from.good("parameters") {
			r.Parameters = maps.Clone(from.Rule.Parameters)
		}
	}
	add := func(name, stated string) {
		if account, weigher, pair := strings.Cut(name, "/"); (account == "" || pair && weigher == "") && (from.spoiled("algorithm") || from.spoiled("migrate")) {
			return // no name was written there, which is reported
		}
		u := use{Use: Use{Algorithm: name, Who: e.Who, At: from.fields.get(stated).At}, inDefaults: from == b.base}
		if r.Migration == nil {
			u.Parameters, u.ParametersAt = r.Parameters, e.fields.get("parameters").At
			if u.parametersInDefaults = !e.Has("parameters"); u.parametersInDefaults {
				u.ParametersAt = b.base.fields.get("parameters").At
			}
		}
		b.run.uses = append(b.run.uses, u)
	}
	if m := r.Migration; m != nil {
		r.Algorithm = ""
		add(m.From, "migrate.from")
		add(m.To, "migrate.to")
		return
	}
	add(r.Algorithm, "algorithm")
}

// fillSafeCapacity takes the safe capacity of the rule or the defaults, and
// refuses one without the other half.
func (b *Builder) fillSafeCapacity(e *Entry, r *rule.Rule) {
	safe := r.Fallback == rule.FallbackSafe
	if e.good("safe_capacity") && e.good("limit") && e.SafeInFlight != r.InFlight {
		b.Report(e, "safe_capacity", "counts %s, and the limit counts %s: write both alike", quantity.Unit(e.SafeInFlight), quantity.Unit(r.InFlight))
	}
	if !safe && e.good("safe_capacity") && (!e.Has("fallback") || e.good("fallback")) {
		b.Report(e, "safe_capacity", "is for fallback: safe, and this rule's fallback is %v: add fallback: safe, or remove it", r.Fallback)
	}
	if e.Has("safe_capacity") {
		return
	}
	r.SafeCapacity = 0
	if !safe {
		return
	}
	alike := b.base.SafeInFlight == r.InFlight
	if alike && b.base.good("safe_capacity") {
		r.SafeCapacity = b.base.Rule.SafeCapacity
		return
	}
	if !b.base.Has("safe_capacity") || !alike && b.base.good("safe_capacity") {
		example := "10/s"
		if r.InFlight {
			example = "10 in-flight"
		}
		b.Report(e, "fallback", "safe needs a safe_capacity: add safe_capacity: %s, or what one host may do alone", example)
	}
}

// Unmatched says what happens to keys without a rule, if that is not a rule.
func (b *Builder) Unmatched(u rule.Unmatched) { b.content.Unmatched = u }

// Merge takes all of a part, which has no problems, but its properties. After comes before the first part.
func (b *Builder) Merge(part *Content) {
	b.content.Rules = append(b.content.Rules, part.Rules...)
	b.content.Places = append(b.content.Places, part.Places...)
	b.content.Runs = append(b.content.Runs, part.Runs...)
	b.content.Overrides = append(b.content.Overrides, part.Overrides...)
	b.content.Private = b.content.Private || part.Private
	if part.Unmatched != rule.UnmatchedAllow {
		b.content.Unmatched, b.content.UnmatchedRule = part.Unmatched, part.UnmatchedRule
	}
	for name, v := range part.Values {
		b.Value(name, v.V, Mark{})
	}
}

// Finish is what was gathered. It lacks what has a problem.
func (b *Builder) Finish() *Content {
	b.End()
	switch {
	case !b.late:
		b.content.Keys.Index.Finish()
	case !b.problems.Any(): // else it is made again, or of no use
		b.follow(b.problems)
	}
	return b.content
}
