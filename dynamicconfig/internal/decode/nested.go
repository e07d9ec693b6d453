// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// algorithm reads `algorithm:` into e.
func (d *decoder) algorithm(e *build.Entry, n ast.Node) {
	if !d.named(n, e.Who+": algorithm", &e.Rule.Algorithm) {
		e.Spoil("algorithm")
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
			d.Add(strictyaml.Place(n), "%s: has no %s: add it, as in algorithm: {account: pool, weigh: fair-share}", who, part)
			ok = false
		}
	}
	*name = account + "/" + weigh
	return ok
}

// migration reads `migrate:` into e.
func (d *decoder) migration(e *build.Entry, n ast.Node) {
	const example = "migrate: {from: even, to: auto, mode: old-shadow-new}"
	who := e.Who + ": migrate"
	if _, ok := d.Resolve(n).(*ast.MappingNode); !ok {
		d.Add(strictyaml.Place(n), "%s: is %s: write a map, as in %s", who, d.Kind(n), example)
		e.Spoil("migrate")
		return
	}
	fields, ok := d.Mapping(n, who, knownMigrate)
	if !ok {
		e.Spoil("migrate")
		return
	}
	m := &rule.Migration{}
	for _, f := range fields {
		e.State("migrate."+f.Name, strictyaml.Place(f.Value))
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
			e.Spoil("migrate")
		}
	}
	for _, name := range knownMigrate {
		if strictyaml.Find(fields, name) == nil {
			d.Add(strictyaml.Place(n), "%s: has no %s: add it, as in %s", who, name, example)
			e.Spoil("migrate")
		}
	}
	e.Rule.Migration = m
}

// parameters reads `parameters:` into e. An algorithm's parameters are text:
// what they mean is for the algorithm to say.
func (d *decoder) parameters(e *build.Entry, n ast.Node) {
	who := e.Who + ": parameters"
	fields, ok := d.Mapping(n, who, nil)
	if !ok {
		e.Spoil("parameters")
	}
	for _, f := range fields {
		v := d.Resolve(f.Value)
		if v != nil && v.Type() == ast.NullType {
			e.Spoil("parameters") // reported by mapping
			continue
		}
		text, _, ok := strictyaml.Plain(v)
		if !ok {
			d.Add(strictyaml.Place(f.Value), "%s: %s: is %s: write one text, number, true or false", who, message.Quote(f.Name), d.Kind(f.Value))
			e.Spoil("parameters")
			continue
		}
		if e.Rule.Parameters == nil {
			e.Rule.Parameters = make(map[string]string, len(fields))
		}
		e.Rule.Parameters[f.Name] = text
	}
}

// priorities reads `priorities:` into e.
func (d *decoder) priorities(e *build.Entry, n ast.Node) {
	const example = "priorities: {10: fair-share, 0: proportional-share}"
	who := e.Who + ": priorities"
	fields, ok := d.Mapping(n, who, nil)
	if !ok {
		e.Spoil("priorities")
	}
	for _, f := range fields {
		band, err := strconv.ParseInt(f.Name, 10, 64)
		if err != nil || strconv.FormatInt(band, 10) != f.Name {
			d.Add(strictyaml.Place(f.Value), "%s: %s is not a priority: write a whole number, as in %s", who, message.Quote(f.Name), example)
			e.Spoil("priorities")
			continue
		}
		var algorithm string
		if !d.named(f.Value, who+": "+f.Name, &algorithm) {
			e.Spoil("priorities")
			continue
		}
		if e.Rule.Priorities == nil {
			e.Rule.Priorities = make(map[int64]string, len(fields))
		}
		e.Rule.Priorities[band] = algorithm
		e.State(build.BandField(band), strictyaml.Place(f.Value))
	}
}
