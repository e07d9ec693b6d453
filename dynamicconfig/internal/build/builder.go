// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

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

// builder makes a Snapshot out of entries, whether they come from a file or
// from code. Order matters: properties, defaults, rules, then the rest.
type builder struct {
	problems *strictyaml.Problems
	snapshot *Snapshot
	base     *entry         // the defaults
	patterns map[string]int // globs by their text, for repeats
	places   []mark         // of the rules, for repeats
}

func newBuilder(o origin, p *strictyaml.Problems) *builder {
	return &builder{
		problems: p,
		snapshot: &Snapshot{origin: o},
		base:     &entry{who: "defaults"},
		patterns: make(map[string]int),
	}
}

// grow makes room for n more rules.
func (b *builder) grow(n int) {
	b.snapshot.rules = slices.Grow(b.snapshot.rules, n)
	b.snapshot.places = slices.Grow(b.snapshot.places, n)
	b.snapshot.uses = slices.Grow(b.snapshot.uses, n)
	b.places = slices.Grow(b.places, n)
}

func (b *builder) add(at mark, format string, args ...any) { b.problems.Add(at, format, args...) }

// err is nil, or all that is wrong.
func (b *builder) err() error { return b.snapshot.origin.err(b.problems) }

// report says what is wrong with one field of e.
func (b *builder) report(e *entry, name, format string, args ...any) {
	at := e.at
	if e.has(name) {
		at = e.fields.get(name).at
	}
	b.add(at, "%s", e.who+": "+name+": "+fmt.Sprintf(format, args...))
}

// defaults takes the defaults of all rules.
func (b *builder) defaults(e *entry) {
	for _, name := range []string{"key", "limit", "burst", "max_cost", "shared", "description"} {
		if e.good(name) {
			b.report(e, name, "belongs to one rule: move it there")
			e.spoil(name)
		}
	}
	b.check(e)
	lease := 10 * b.snapshot.properties.UpdateInterval
	if e.good("lease") {
		lease = e.rule.Lease
	}
	if e.good("refresh") && e.rule.Refresh > lease/2 {
		b.report(e, "refresh", "%s is too long: use at most half of lease, which is %s", quantity.Duration(e.rule.Refresh), quantity.Duration(lease/2))
	}
	if e.good("parameters") && e.has("migrate") {
		b.report(e, "parameters", "are for one algorithm, and a migration has two: remove them, or the migration")
	}
	b.snapshot.private = e.good("private") && e.rule.Private
	b.base = e
}

// rule takes the next rule.
func (b *builder) rule(e *entry) {
	b.check(e)
	r := b.fill(e)
	if !e.has("key") {
		b.add(e.at, "%s: has no key: add key: \"group:name\"", e.who)
	}
	i := len(b.snapshot.rules)
	b.snapshot.rules = append(b.snapshot.rules, r)
	b.snapshot.places = append(b.snapshot.places, e.fields.get("key").at)
	b.places = append(b.places, e.at)
	if e.good("key") {
		b.key(i, e)
	}
}

// key compiles the key of rule i.
func (b *builder) key(i int, e *entry) {
	key := e.rule.Key
	if key == "" || len(key) > rule.MaxKeyLength {
		b.report(e, "key", "has %d bytes: use 1 to %d", len(key), rule.MaxKeyLength)
		return
	}
	g, err := glob.Compile(key)
	if err != nil {
		b.report(e, "key", "%v", err)
		return
	}
	if g.Exact() && e.rule.Shared && e.good("shared") {
		b.report(e, "shared", "has no meaning for one exact key: remove it, or make the key a glob")
	}
	if g.Exact() && e.rule.Private && e.good("private") {
		b.report(e, "private", "has no meaning for one exact key, which this file shows: remove it, or make the key a glob")
	}
	taken := b.snapshot.index.Add(i, g)
	if !g.Exact() {
		if j, ok := b.patterns[key]; ok {
			taken = j
		} else {
			b.patterns[key] = i
			if e.rule.Shared {
				b.snapshot.index.Share(i, key)
			}
		}
	}
	if taken >= 0 {
		where := fmt.Sprintf("rule number %d", taken+1)
		if at := b.places[taken]; at.Line > 0 {
			where = fmt.Sprintf("the rule in line %d", at.Line)
		}
		b.report(e, "key", "%s has the same key: remove one of the two", where)
	}
}

// unmatchedRule takes the rule of unmatched keys.
func (b *builder) unmatchedRule(e *entry) {
	b.check(e)
	r := b.fill(e)
	r.Key = "*"
	b.snapshot.unmatched = UnmatchedRule
	b.snapshot.unmatchedRule = &r
}

// fill completes a checked entry from the defaults.
func (b *builder) fill(e *entry) Rule {
	r, base := e.rule, &b.base.rule
	if !e.has("limit") {
		b.add(e.at, "%s: has no limit: add limit: 1000/s, or what it is to be", e.who)
	}
	// A bad burst or limit was reported; else leave Limit's own.
	if !e.has("burst") && e.good("limit") && r.Limit > 0 && !r.InFlight {
		r.Burst = max(float64(r.Limit), 1)
	}
	b.fillAlgorithm(e, &r)
	if !e.has("fallback") && b.base.good("fallback") {
		r.Fallback = base.Fallback
	}
	b.fillSafeCapacity(e, &r)
	interval := b.snapshot.properties.UpdateInterval
	if !e.good("lease") {
		r.Lease = 10 * interval
		if b.base.good("lease") {
			r.Lease = base.Lease
		}
	}
	b.fillLeasing(e, &r)
	b.fillTerms(e, &r)
	if !e.has("idle_after") {
		r.IdleAfter = 5 * interval
		if b.base.good("idle_after") {
			r.IdleAfter = base.IdleAfter
		}
	}
	if !e.has("private") && b.base.good("private") {
		r.Private = base.Private
	}
	if !e.has("max_keys") {
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
func (b *builder) fillAlgorithm(e *entry, r *Rule) {
	from := e
	if !e.has("algorithm") && !e.has("migrate") {
		from = b.base
		r.Algorithm = defaultAlgorithm
		if r.InFlight {
			r.Algorithm = defaultInFlight
		}
		fits := !r.InFlight || sharesSlots(&from.rule)
		if fits && from.good("algorithm") {
			r.Algorithm = from.rule.Algorithm
		}
		if fits && from.good("migrate") {
			m := *from.rule.Migration
			r.Migration = &m
		}
		if fits && !e.has("parameters") && from.good("parameters") {
			r.Parameters = maps.Clone(from.rule.Parameters)
		}
	}
	add := func(name, stated string) {
		if account, weigher, pair := strings.Cut(name, "/"); (account == "" || pair && weigher == "") && (from.spoiled("algorithm") || from.spoiled("migrate")) {
			return // no name was written there, which is reported
		}
		u := use{algorithm: name, who: e.who, at: from.fields.get(stated).at}
		if r.Migration == nil {
			u.parameters, u.parametersAt = r.Parameters, e.fields.get("parameters").at
			if !e.has("parameters") {
				u.parametersAt = b.base.fields.get("parameters").at
			}
		}
		b.snapshot.uses = append(b.snapshot.uses, u)
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
func (b *builder) fillSafeCapacity(e *entry, r *Rule) {
	safe := r.Fallback == FallbackSafe
	if e.good("safe_capacity") && e.good("limit") && e.safeInFlight != r.InFlight {
		b.report(e, "safe_capacity", "counts %s, and the limit counts %s: write both alike", quantity.Unit(e.safeInFlight), quantity.Unit(r.InFlight))
	}
	if !safe && e.good("safe_capacity") && (!e.has("fallback") || e.good("fallback")) {
		b.report(e, "safe_capacity", "is for fallback: safe, and this rule's fallback is %v: add fallback: safe, or remove it", r.Fallback)
	}
	if e.has("safe_capacity") {
		return
	}
	r.SafeCapacity = 0
	if !safe {
		return
	}
	alike := b.base.safeInFlight == r.InFlight
	if alike && b.base.good("safe_capacity") {
		r.SafeCapacity = b.base.rule.SafeCapacity
		return
	}
	if !b.base.has("safe_capacity") || !alike && b.base.good("safe_capacity") {
		example := "10/s"
		if r.InFlight {
			example = "10 in-flight"
		}
		b.report(e, "fallback", "safe needs a safe_capacity: add safe_capacity: %s, or what one host may do alone", example)
	}
}

// draft is finish that returns, beside an error, the Snapshot of what has no mistake.
func (b *builder) draft() (*Snapshot, error) {
	s, err := b.finish()
	if err != nil {
		return b.snapshot, err
	}
	return s, nil
}

// finish is the Snapshot, or all that is wrong.
func (b *builder) finish() (*Snapshot, error) {
	if err := b.err(); err != nil {
		return nil, err
	}
	s := b.snapshot
	s.index.Finish()
	s.patterns = b.patterns
	s.version = s.fingerprint()
	return s, nil
}
