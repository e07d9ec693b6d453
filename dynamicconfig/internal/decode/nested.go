// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// algorithm reads `algorithm:` into e.
func (d *decoder) algorithm(e *entry, n ast.Node) {
	if !d.named(n, e.who+": algorithm", &e.rule.Algorithm) {
		e.spoil("algorithm")
	}
}

// named reads the name of an algorithm, or a weigher beside an account, into name.
func (d *decoder) named(n ast.Node, who string, name *string) bool {
	if _, pair := d.Resolve(n).(*ast.MappingNode); !pair {
		return d.scalar(n, who, called{name, "the name of an algorithm, as in fair-share"})
	}
	fields, ok := d.Mapping(n, who, knownPair)
	var account, weigh string
	parts := map[string]*string{"account": &account, "weigh": &weigh}
	for _, f := range fields {
		ok = d.scalar(f.Value, who+"."+f.Name, called{parts[f.Name], "a name, as in pool or fair-share"}) && ok
	}
	for _, part := range knownPair {
		if ok && strictyaml.Find(fields, part) == nil {
			d.add(strictyaml.Place(n), "%s: has no %s: add it, as in algorithm: {account: pool, weigh: fair-share}", who, part)
			ok = false
		}
	}
	*name = account + "/" + weigh
	return ok
}

// migration reads `migrate:` into e.
func (d *decoder) migration(e *entry, n ast.Node) {
	const example = "migrate: {from: even, to: auto, mode: old-shadow-new}"
	who := e.who + ": migrate"
	fields, ok := d.Mapping(n, who, knownMigrate)
	if !ok {
		e.spoil("migrate")
		return
	}
	m := &Migration{}
	for _, f := range fields {
		e.state("migrate."+f.Name, strictyaml.Place(f.Value))
		part, ok := who+"."+f.Name, false
		switch f.Name {
		case "from":
			ok = d.named(f.Value, part, &m.From)
		case "to":
			ok = d.named(f.Value, part, &m.To)
		default:
			ok = d.scalar(f.Value, part, &m.Mode)
		}
		if !ok {
			e.spoil("migrate")
		}
	}
	for _, name := range knownMigrate {
		if strictyaml.Find(fields, name) == nil {
			d.add(strictyaml.Place(n), "%s: has no %s: add it, as in %s", who, name, example)
			e.spoil("migrate")
		}
	}
	e.rule.Migration = m
}

// parameters reads `parameters:` into e. An algorithm's parameters are text:
// what they mean is for the algorithm to say.
func (d *decoder) parameters(e *entry, n ast.Node) {
	who := e.who + ": parameters"
	fields, ok := d.Mapping(n, who, nil)
	if !ok {
		e.spoil("parameters")
	}
	for _, f := range fields {
		v := d.Resolve(f.Value)
		if v != nil && v.Type() == ast.NullType {
			e.spoil("parameters") // reported by mapping
			continue
		}
		text, _, ok := strictyaml.Plain(v)
		if !ok {
			d.add(strictyaml.Place(f.Value), "%s: %s: is %s: write one text, number, true or false", who, message.Quote(f.Name), d.Kind(f.Value))
			e.spoil("parameters")
			continue
		}
		if e.rule.Parameters == nil {
			e.rule.Parameters = make(map[string]string, len(fields))
		}
		e.rule.Parameters[f.Name] = text
	}
}

// priorities reads `priorities:` into e.
func (d *decoder) priorities(e *entry, n ast.Node) {
	const example = "priorities: {10: fair-share, 0: proportional-share}"
	who := e.who + ": priorities"
	fields, ok := d.Mapping(n, who, nil)
	if !ok {
		e.spoil("priorities")
	}
	for _, f := range fields {
		band, err := strconv.ParseInt(f.Name, 10, 64)
		if err != nil || strconv.FormatInt(band, 10) != f.Name {
			d.add(strictyaml.Place(f.Value), "%s: %s is not a priority: write a whole number, as in %s", who, message.Quote(f.Name), example)
			e.spoil("priorities")
			continue
		}
		var algorithm string
		if !d.named(f.Value, who+": "+f.Name, &algorithm) {
			e.spoil("priorities")
			continue
		}
		if e.rule.Priorities == nil {
			e.rule.Priorities = make(map[int64]string, len(fields))
		}
		e.rule.Priorities[band] = algorithm
		e.state(bandField(band), strictyaml.Place(f.Value))
	}
}

// bandField names the algorithm of one band among an entry's fields.
func bandField(band int64) string { return "priorities." + strconv.FormatInt(band, 10) }
