// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"maps"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/spelling"
)

// propertyFields are the cluster-wide settings in `defaults:`.
var propertyFields = map[string]func(p *rule.Properties) any{
	"update_interval":   func(p *rule.Properties) any { return &p.UpdateInterval },
	"update_timeout":    func(p *rule.Properties) any { return &p.UpdateTimeout },
	"new_data_weight":   func(p *rule.Properties) any { return &p.NewDataWeight },
	"decay_after":       func(p *rule.Properties) any { return &p.DecayAfter },
	"gc_after":          func(p *rule.Properties) any { return &p.GCAfter },
	"max_owned_keys":    func(p *rule.Properties) any { return &p.MaxKeys },
	"max_hosts_per_key": func(p *rule.Properties) any { return &p.MaxHostsPerKey },
}

// ruleFields are the fields of a rule that are one scalar.
var ruleFields = map[string]func(e *build.Entry) any{
	"key":           func(e *build.Entry) any { return &e.Rule.Key },
	"limit":         func(e *build.Entry) any { return capacity{&e.Rule.Limit, &e.Rule.InFlight} },
	"burst":         func(e *build.Entry) any { return tokens{&e.Rule.Burst} },
	"fallback":      func(e *build.Entry) any { return &e.Rule.Fallback },
	"safe_capacity": func(e *build.Entry) any { return capacity{&e.Rule.SafeCapacity, &e.SafeInFlight} },
	"lease":         func(e *build.Entry) any { return &e.Rule.Lease },
	"idle_after":    func(e *build.Entry) any { return &e.Rule.IdleAfter },
	"max_keys":      func(e *build.Entry) any { return &e.Rule.MaxKeys },
	"shared":        func(e *build.Entry) any { return &e.Rule.Shared },
	"private":       func(e *build.Entry) any { return &e.Rule.Private },
	"description":   func(e *build.Entry) any { return &e.Rule.Description },
	"refresh":       func(e *build.Entry) any { return &e.Rule.Refresh },
	"learning":      func(e *build.Entry) any { return orNone{&e.Rule.Learning} },
	"recalculate":   func(e *build.Entry) any { return orNone{&e.Rule.Recalculate} },
	"overcommit":    func(e *build.Entry) any { return percent{&e.Rule.Overcommit} },
	"priority":      func(e *build.Entry) any { return &e.Rule.Priority },
	"one_band":      func(e *build.Entry) any { return &e.Rule.OneBand },
	"parent":        func(e *build.Entry) any { return &e.Rule.Parent },
	"max_wait":      func(e *build.Entry) any { return orNone{&e.Rule.MaxWait} },
	"max_debt":      func(e *build.Entry) any { return orNone{&e.Rule.MaxDebt} },
	"max_cost":      func(e *build.Entry) any { return &e.Rule.MaxCost },
	"enforce":       func(e *build.Entry) any { return orSoft{&e.Rule.Enforce} },
	"ask_timeout":   func(e *build.Entry) any { return &e.Rule.AskTimeout },
}

// nestedFields are the fields of a rule that are maps.
var nestedFields = map[string]func(d *decoder, e *build.Entry, n ast.Node){
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

// elsewhere says where the fields of other maps belong.
var elsewhere = func() map[string]string {
	to := make(map[string]string)
	for _, name := range knownRule {
		to[name] = "is a field of rules: move it to a rule, or to defaults"
		if build.OfOneRule(name) {
			to[name] = "belongs to one rule: move it there"
		}
	}
	for name := range propertyFields {
		to[name] = "is a setting of the whole cluster: move it to defaults"
	}
	for _, name := range knownTop {
		to[name] = "stands at the top of the file: move it there"
	}
	return to
}()

// other has what other rate limiters call fields of a limits file.
var other = map[string]string{
	"rules": "limits", "policies": "limits", "buckets": "limits",
	"name": "key", "pattern": "key", "match": "key", "glob": "key", "resource": "key",
	"rate": "limit", "qps": "limit", "rps": "limit", "quota": "limit", "capacity": "limit", "fill_rate": "limit",
	"size": "burst", "bucket_size": "burst",
	"wait": "max_wait", "timeout": "max_wait", "wait_timeout": "max_wait",
	"type": "algorithm", "strategy": "algorithm",
	"comment": "description", "note": "description",
}

// RuleFields are the names of the fields that a rule may have in a config file, sorted.
func RuleFields() []string { return slices.Clone(knownRule) }

// file reads a whole config file.
func (d *decoder) file(root ast.Node) {
	fields, _ := d.Mapping(root, "the file", knownTop)
	d.fields(func(name string) ast.Node { return strictyaml.Find(fields, name) }, d.limitsOf)
}

// fields reads what a file has at its top, its rules with limits.
func (d *decoder) fields(top func(name string) ast.Node, limits func(n ast.Node)) {
	d.defaultsOf(top("defaults"))
	limits(top("limits"))
	d.unmatchedOf(top("unmatched"))
	d.overridesOf(top("overrides"))
	d.valuesOf(top("properties"))
}

func (d *decoder) defaultsOf(n ast.Node) {
	e := &build.Entry{Who: "defaults"}
	p := d.cluster
	stated := make(map[string]build.Field)
	var fields []strictyaml.Field
	if n != nil {
		e.At = strictyaml.Place(n)
		fields, _ = d.Mapping(n, e.Who, knownDefaults)
	}
	fields = slices.DeleteFunc(fields, func(f strictyaml.Field) bool {
		get := propertyFields[f.Name]
		if get == nil {
			return false
		}
		ok := d.scalar(f.Value, "defaults: "+f.Name, get(&p))
		stated[f.Name] = build.Field{At: strictyaml.Place(f.Value), Bad: !ok}
		return true
	})
	d.Properties(p, stated)
	d.ruleInto(e, fields)
	d.Defaults(e)
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
	e := &build.Entry{Who: d.whoIs(i, item), At: strictyaml.Place(item)}
	if key, limit, ok := d.short(item); ok {
		d.Add(e.At, "%s: write - {key: %s, limit: %s}", e.Who, message.Quote(key), limit)
		return
	}
	fields, ok := d.Mapping(item, e.Who, knownRule)
	if ok && !d.Exhausted() {
		e.Reserve(len(fields))
		d.ruleInto(e, fields)
		d.Rule(e)
	}
}

// short is what a rule says that is written as `- key: limit`, which is not how rules are written.
func (d *decoder) short(item ast.Node) (key, limit string, ok bool) {
	m, ok := d.Resolve(item).(*ast.MappingNode)
	if !ok || len(m.Values) != 1 || m.Values[0].Value == nil {
		return "", "", false
	}
	text, _, ok := strictyaml.Plain(d.Resolve(m.Values[0].Value))
	if _, _, err := quantity.ParseCapacity(text); !ok || err != nil {
		return "", "", false
	}
	key = m.Values[0].Key.GetToken().Value
	return key, text, !slices.Contains(knownRule, key) && other[key] == "" && spelling.Nearest(key, knownRule) == ""
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
func (d *decoder) ruleInto(e *build.Entry, fields []strictyaml.Field) {
	for _, f := range fields {
		e.State(f.Name, strictyaml.Place(f.Value))
		if nested := nestedFields[f.Name]; nested != nil {
			nested(d, e, f.Value)
		} else if !d.scalarOf(f.Value, e.Who, f.Name, ruleFields[f.Name](e)) {
			e.Spoil(f.Name)
		}
	}
}

func (d *decoder) unmatchedOf(n ast.Node) {
	if n == nil {
		return
	}
	const advice = "use allow, deny, or a rule without a key"
	if _, ok := d.Resolve(n).(*ast.MappingNode); ok {
		e := &build.Entry{Who: "unmatched", At: strictyaml.Place(n)}
		fields, _ := d.Mapping(n, e.Who, knownRule)
		d.ruleInto(e, fields)
		e.Who = "unmatched"
		if e.Has("key") {
			d.Report(e, "key", "the rule is for all other keys: remove it")
		}
		d.UnmatchedRule(e)
		return
	}
	var word string
	if !d.scalar(n, "unmatched", &word) {
		return
	}
	switch word {
	case "allow":
		d.Unmatched(rule.UnmatchedAllow)
	case "deny":
		d.Unmatched(rule.UnmatchedDeny)
	default:
		d.Add(strictyaml.Place(n), "unmatched: is %s: %s", message.Quote(word), advice)
	}
}

func (d *decoder) valuesOf(n ast.Node) {
	if n == nil {
		return
	}
	fields, _ := d.Mapping(n, "properties", nil)
	for _, f := range fields {
		if v, ok := d.anyScalar(f.Value, "properties: "+message.Quote(f.Name)); ok {
			d.Value(f.Name, v, strictyaml.Place(f.Value))
		}
	}
}
