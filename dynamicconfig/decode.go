// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"maps"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// propertyFields are the cluster-wide settings in `defaults:`.
var propertyFields = map[string]func(p *Properties) any{
	"update_interval":   func(p *Properties) any { return &p.UpdateInterval },
	"update_timeout":    func(p *Properties) any { return &p.UpdateTimeout },
	"new_data_weight":   func(p *Properties) any { return &p.NewDataWeight },
	"decay_after":       func(p *Properties) any { return &p.DecayAfter },
	"gc_after":          func(p *Properties) any { return &p.GCAfter },
	"max_owned_keys":    func(p *Properties) any { return &p.MaxKeys },
	"max_hosts_per_key": func(p *Properties) any { return &p.MaxHostsPerKey },
}

// ruleFields are the fields of a rule that are one scalar.
var ruleFields = map[string]func(e *entry) any{
	"key":           func(e *entry) any { return &e.rule.Key },
	"limit":         func(e *entry) any { return capacity{&e.rule.Limit, &e.rule.InFlight} },
	"burst":         func(e *entry) any { return &e.rule.Burst },
	"algorithm":     func(e *entry) any { return &e.rule.Algorithm },
	"fallback":      func(e *entry) any { return &e.rule.Fallback },
	"safe_capacity": func(e *entry) any { return capacity{&e.rule.SafeCapacity, &e.safeInFlight} },
	"lease":         func(e *entry) any { return &e.rule.Lease },
	"idle_after":    func(e *entry) any { return &e.rule.IdleAfter },
	"max_keys":      func(e *entry) any { return &e.rule.MaxKeys },
	"shared":        func(e *entry) any { return &e.rule.Shared },
	"description":   func(e *entry) any { return &e.rule.Description },
	"refresh":       func(e *entry) any { return &e.rule.Refresh },
	"learning":      func(e *entry) any { return orNone{&e.rule.Learning} },
	"recalculate":   func(e *entry) any { return orNone{&e.rule.Recalculate} },
	"overcommit":    func(e *entry) any { return percent{&e.rule.Overcommit} },
	"priority":      func(e *entry) any { return &e.rule.Priority },
	"parent":        func(e *entry) any { return &e.rule.Parent },
}

// nestedFields are the fields of a rule that are maps.
var nestedFields = map[string]func(d *decoder, e *entry, n ast.Node){
	"migrate":    (*decoder).migration,
	"parameters": (*decoder).parameters,
	"priorities": (*decoder).priorities,
}

var (
	knownTop      = []string{"defaults", "limits", "properties", "unmatched"}
	knownRule     = slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(ruleFields)), "migrate", "parameters", "priorities")))
	knownDefaults = append(slices.Sorted(maps.Keys(propertyFields)), knownRule...)
	knownMigrate  = []string{"from", "mode", "to"}

	// laterFields are designed and not built yet.
	laterFields = []string{"enforce", "max_cost", "max_debt", "max_wait"}
)

// file reads a whole config file.
func (d *decoder) file(root ast.Node) {
	d.collectAnchors(root)
	fields, _ := d.mapping(root, "the file", knownTop)
	d.defaultsOf(find(fields, "defaults"))
	d.limitsOf(find(fields, "limits"))
	d.unmatchedOf(find(fields, "unmatched"))
	d.valuesOf(find(fields, "properties"))
}

func (d *decoder) defaultsOf(n ast.Node) {
	e := &entry{who: "defaults"}
	var p Properties
	stated := make(map[string]field)
	var fields []nodeField
	if n != nil {
		e.at = place(n)
		fields, _ = d.mapping(n, e.who, knownDefaults)
	}
	fields = slices.DeleteFunc(fields, func(f nodeField) bool {
		get := propertyFields[f.name]
		if get == nil {
			return false
		}
		ok := d.scalar(f.value, "defaults: "+f.name, get(&p))
		stated[f.name] = field{at: place(f.value), bad: !ok}
		return true
	})
	d.properties(p, stated)
	d.ruleInto(e, fields)
	d.defaults(e)
}

func (d *decoder) limitsOf(n ast.Node) {
	if n == nil {
		return
	}
	list, ok := d.resolve(n).(*ast.SequenceNode)
	if !ok {
		d.add(place(n), "limits: is %s: write a list, each rule beginning with - key:", d.kind(n))
		return
	}
	for i, item := range list.Values {
		e := &entry{who: fmt.Sprintf("rule number %d", i+1), at: place(item)}
		fields, ok := d.mapping(item, e.who, knownRule)
		if d.steps > maxSteps {
			return
		}
		if ok {
			d.ruleInto(e, fields)
			d.rule(e)
		}
	}
}

// ruleInto reads the fields of one rule into e.
func (d *decoder) ruleInto(e *entry, fields []nodeField) {
	if n := find(fields, "key"); n != nil { // first: it names the rule
		e.state("key", place(n))
		if !d.scalar(n, e.who+": key", &e.rule.Key) {
			e.spoil("key")
		} else if e.rule.Key != "" && e.who != "defaults" {
			e.who = "rule " + quote(e.rule.Key)
		}
	}
	for _, f := range fields {
		if f.name == "key" {
			continue
		}
		e.state(f.name, place(f.value))
		if nested := nestedFields[f.name]; nested != nil {
			nested(d, e, f.value)
		} else if !d.scalar(f.value, e.who+": "+f.name, ruleFields[f.name](e)) {
			e.spoil(f.name)
		}
	}
}

func (d *decoder) unmatchedOf(n ast.Node) {
	if n == nil {
		return
	}
	const advice = "use allow, deny, or a rule without a key"
	if _, ok := d.resolve(n).(*ast.MappingNode); ok {
		e := &entry{who: "unmatched", at: place(n)}
		fields, _ := d.mapping(n, e.who, knownRule)
		d.ruleInto(e, fields)
		e.who = "unmatched"
		if e.has("key") {
			d.report(e, "key", "the rule is for all other keys: remove it")
		}
		d.unmatchedRule(e)
		return
	}
	var word string
	if !d.scalar(n, "unmatched", &word) {
		return
	}
	switch word {
	case "allow":
		d.snapshot.unmatched = UnmatchedAllow
	case "deny":
		d.snapshot.unmatched = UnmatchedDeny
	default:
		d.add(place(n), "unmatched: is %s: %s", quote(word), advice)
	}
}

func (d *decoder) valuesOf(n ast.Node) {
	if n == nil {
		return
	}
	fields, _ := d.mapping(n, "properties", nil)
	for _, f := range fields {
		if v, ok := d.anyScalar(f.value, "properties: "+quote(f.name)); ok {
			d.value(f.name, v, place(f.value))
		}
	}
}
