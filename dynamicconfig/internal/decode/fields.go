// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"maps"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
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
	"burst":         func(e *entry) any { return tokens{&e.rule.Burst} },
	"fallback":      func(e *entry) any { return &e.rule.Fallback },
	"safe_capacity": func(e *entry) any { return capacity{&e.rule.SafeCapacity, &e.safeInFlight} },
	"lease":         func(e *entry) any { return &e.rule.Lease },
	"idle_after":    func(e *entry) any { return &e.rule.IdleAfter },
	"max_keys":      func(e *entry) any { return &e.rule.MaxKeys },
	"shared":        func(e *entry) any { return &e.rule.Shared },
	"private":       func(e *entry) any { return &e.rule.Private },
	"description":   func(e *entry) any { return &e.rule.Description },
	"refresh":       func(e *entry) any { return &e.rule.Refresh },
	"learning":      func(e *entry) any { return orNone{&e.rule.Learning} },
	"recalculate":   func(e *entry) any { return orNone{&e.rule.Recalculate} },
	"overcommit":    func(e *entry) any { return percent{&e.rule.Overcommit} },
	"priority":      func(e *entry) any { return &e.rule.Priority },
	"one_band":      func(e *entry) any { return &e.rule.OneBand },
	"parent":        func(e *entry) any { return &e.rule.Parent },
	"max_wait":      func(e *entry) any { return orNone{&e.rule.MaxWait} },
	"max_debt":      func(e *entry) any { return orNone{&e.rule.MaxDebt} },
	"max_cost":      func(e *entry) any { return &e.rule.MaxCost },
	"enforce":       func(e *entry) any { return orSoft{&e.rule.Enforce} },
	"ask_timeout":   func(e *entry) any { return &e.rule.AskTimeout },
}

// nestedFields are the fields of a rule that are maps.
var nestedFields = map[string]func(d *decoder, e *entry, n ast.Node){
	"algorithm":  (*decoder).algorithm,
	"migrate":    (*decoder).migration,
	"parameters": (*decoder).parameters,
	"priorities": (*decoder).priorities,
}

var (
	knownTop      = []string{"defaults", "limits", "overrides", "properties", "unmatched"}
	knownRule     = slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(ruleFields)), "algorithm", "migrate", "parameters", "priorities")))
	knownDefaults = append(slices.Sorted(maps.Keys(propertyFields)), knownRule...)
	knownPair     = []string{"account", "weigh"}
	knownMigrate  = []string{"from", "mode", "to"}
)

// RuleFields are the names of the fields that a rule may have in a config file, sorted.
func RuleFields() []string { return slices.Clone(knownRule) }

// file reads a whole config file.
func (d *decoder) file(root ast.Node) {
	fields, _ := d.Mapping(root, "the file", knownTop)
	d.fields(func(name string) ast.Node { return strictyaml.Find(fields, name) })
}

// fields reads what a file has at its top.
func (d *decoder) fields(top func(name string) ast.Node) {
	d.defaultsOf(top("defaults"))
	d.limitsOf(top("limits"))
	d.unmatchedOf(top("unmatched"))
	d.overridesOf(top("overrides"))
	d.valuesOf(top("properties"))
}

func (d *decoder) defaultsOf(n ast.Node) {
	e := &entry{who: "defaults"}
	p := d.cluster
	stated := make(map[string]field)
	var fields []strictyaml.Field
	if n != nil {
		e.at = strictyaml.Place(n)
		fields, _ = d.Mapping(n, e.who, knownDefaults)
	}
	fields = slices.DeleteFunc(fields, func(f strictyaml.Field) bool {
		get := propertyFields[f.Name]
		if get == nil {
			return false
		}
		ok := d.scalar(f.Value, "defaults: "+f.Name, get(&p))
		stated[f.Name] = field{at: strictyaml.Place(f.Value), bad: !ok}
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
	for i, item := range d.List(n, "limits", "a list, each rule beginning with - key:") {
		if d.limit(i, item); d.Exhausted() {
			return
		}
	}
}

// limit reads rule i.
func (d *decoder) limit(i int, item ast.Node) {
	e := &entry{who: d.whoIs(i, item), at: strictyaml.Place(item)}
	fields, ok := d.Mapping(item, e.who, knownRule)
	if ok && !d.Exhausted() {
		e.reserve(len(fields))
		d.ruleInto(e, fields)
		d.rule(e)
	}
}

// whoIs is what messages call rule i: its key, else its number.
func (d *decoder) whoIs(i int, item ast.Node) string {
	if m, ok := d.Resolve(item).(*ast.MappingNode); ok {
		for _, v := range m.Values {
			if v.Key.GetToken().Value != "key" || v.Value == nil {
				continue
			}
			if key, _, ok := strictyaml.Plain(d.Resolve(v.Value)); ok && key != "" {
				return "rule " + message.Quote(key)
			}
		}
	}
	return "rule number " + strconv.Itoa(i+1)
}

// ruleInto reads the fields of one rule into e.
func (d *decoder) ruleInto(e *entry, fields []strictyaml.Field) {
	for _, f := range fields {
		e.state(f.Name, strictyaml.Place(f.Value))
		if nested := nestedFields[f.Name]; nested != nil {
			nested(d, e, f.Value)
		} else if !d.scalarOf(f.Value, e.who, f.Name, ruleFields[f.Name](e)) {
			e.spoil(f.Name)
		}
	}
}

func (d *decoder) unmatchedOf(n ast.Node) {
	if n == nil {
		return
	}
	const advice = "use allow, deny, or a rule without a key"
	if _, ok := d.Resolve(n).(*ast.MappingNode); ok {
		e := &entry{who: "unmatched", at: strictyaml.Place(n)}
		fields, _ := d.Mapping(n, e.who, knownRule)
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
		d.add(strictyaml.Place(n), "unmatched: is %s: %s", message.Quote(word), advice)
	}
}

func (d *decoder) valuesOf(n ast.Node) {
	if n == nil {
		return
	}
	fields, _ := d.Mapping(n, "properties", nil)
	for _, f := range fields {
		if v, ok := d.anyScalar(f.Value, "properties: "+message.Quote(f.Name)); ok {
			d.value(f.Name, v, strictyaml.Place(f.Value))
		}
	}
}
