// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// File is one of several config files that are one configuration together.
type File struct {
	Name string // for messages about another file
	Data []byte
}

// Read is one of several files, as it was read.
type Read struct {
	Result

	name    string
	cluster rule.Properties // with which it was read
	top     top
}

// top says where the sections of a file stand of which there is one in all files; those that are not there are nowhere.
type top struct{ unmatched, settings, overrides build.Mark }

// Files reads several config files as one configuration: each, and, if none has problems, the whole.
// There is one file at least. What is the same in before and whole, which may be empty and nil, is taken from there; the
// result does not depend on them.
func Files(files []File, before []Read, earlier *build.Content) (parts []Read, whole Result) {
	read := make(map[string]*Read)
	for i := range before {
		read[before[i].name] = &before[i]
	}
	all := make([]*part, len(files))
	for i, f := range files {
		all[i] = newPart(f, read[f.Name])
	}
	one := func(what string, has func(top) build.Mark) {
		var only *part
		for _, p := range all {
			at := has(p.top)
			switch {
			case at == build.Mark{}:
			case only == nil:
				only = p
			default:
				p.Add(at, "%s of the whole cluster, and %s has them too: leave them in one file", what, only.place(has(only.top)))
			}
		}
	}
	settings := func(t top) build.Mark { return t.settings }
	var cluster rule.Properties
	if i := slices.IndexFunc(all, func(p *part) bool { return settings(p.top) != build.Mark{} }); i >= 0 {
		all[i].decode(rule.Properties{})
		cluster = all[i].content.Properties
	}
	for _, p := range all {
		p.decode(cluster)
	}
	one("unmatched: are settings", func(t top) build.Mark { return t.unmatched })
	one("defaults: has settings", settings)
	broken := func() bool { return slices.ContainsFunc(all, func(p *part) bool { return p.Any() }) }
	twice := broken()
	if !twice {
		whole = merged(all, cluster, earlier)
		twice = whole.Problems.Any()
	}
	taken(all, twice)
	for _, p := range all {
		parts = append(parts, Read{Result{Text: p.Text, Problems: &p.Problems, Content: p.content}, p.name, p.cluster, p.top})
	}
	if broken() {
		return parts, Result{}
	}
	for i := range parts {
		parts[i].Problems = new(strictyaml.Problems) // who keeps a part keeps no tree
	}
	return parts, whole
}

// merged is the whole. Its problems are keys that two parts have.
func merged(all []*part, cluster rule.Properties, earlier *build.Content) Result {
	problems := new(strictyaml.Problems)
	b := build.New(problems)
	b.Properties(cluster, nil)
	b.After(earlier)
	for _, p := range all {
		b.Merge(p.content)
	}
	return Result{Problems: problems, Content: b.Finish()}
}

// part is one of several files while it is read.
type part struct {
	*decoder
	name    string
	data    []byte
	before  *Read // with the same text, or nil
	fields  map[string]ast.Node
	top     top
	rules   *rules         // of a large file, nil of others
	content *build.Content // nil until it was read
}

func newPart(f File, before *Read) *part {
	p := &part{name: f.Name, data: f.Data}
	if before != nil && before.Text == string(f.Data) {
		p.decoder, p.top, p.before = newDecoder(f.Data), before.top, before
		return p
	}
	var earlier *build.Content
	if before != nil {
		earlier = before.Content
	}
	p.begin(len(f.Data) >= largeFile, earlier)
	return p
}

// begin reads what stands at the top, and, unless the file is large and plain, the rules.
func (p *part) begin(large bool, earlier *build.Content) {
	p.decoder, p.fields, p.rules, p.before, p.top = newDecoder(p.data), make(map[string]ast.Node), nil, nil, top{}
	var root ast.Node
	if large {
		p.rules = newRules(p.decoder, earlier)
	}
	if p.rules != nil {
		root = p.rules.Root
	} else {
		root = p.Parse()
	}
	if root == nil {
		return
	}
	fields, _ := p.Mapping(root, "the file", knownTop)
	for _, field := range fields {
		p.fields[field.Name] = field.Value
	}
	for name, at := range map[string]*build.Mark{"unmatched": &p.top.unmatched, "overrides": &p.top.overrides} {
		if n := p.fields[name]; n != nil {
			*at = strictyaml.Place(n)
		}
	}
	if m, ok := p.Resolve(p.fields["defaults"]).(*ast.MappingNode); ok {
		for _, v := range m.Values {
			if propertyFields[v.Key.GetToken().Value] != nil {
				p.top.settings = strictyaml.Place(v.Key)
				break
			}
		}
	}
}

// decode reads the part once. cluster are the settings that it has from another.
func (p *part) decode(cluster rule.Properties) {
	for p.content == nil {
		if p.before != nil {
			if p.before.cluster == cluster {
				p.cluster = cluster
				p.content = p.before.Content
				return
			}
			p.begin(len(p.data) >= largeFile, nil)
		}
		limits := p.limitsOf
		if p.rules != nil {
			limits = func(ast.Node) { p.rules.read() }
		}
		p.cluster = cluster
		p.decoder.fields(func(name string) ast.Node { return p.fields[name] }, limits)
		if p.rules != nil && p.Any() { // the YAML library understands more
			p.begin(false, nil)
			continue
		}
		p.content = p.Finish()
	}
}

// place is a place in p, for messages about another part.
func (p *part) place(at build.Mark) string {
	return fmt.Sprintf("%s:%d:%d", p.name, at.Line, at.Column)
}

// taken reports the keys and names that a part has and an earlier one has, too. rules says whether keys of rules may be
// among them.
func taken(parts []*part, rules bool) {
	keys, names, overrides := make(map[string]string), make(map[string]string), make(map[string]string)
	for _, p := range parts {
		c := p.content
		for i := range c.Overrides {
			who := c.Overrides[i].Name()
			if where, twice := overrides[who]; twice {
				p.Add(p.top.overrides, "%s: %s has one for the same: remove one of the two", who, where)
			}
			overrides[who] = p.place(p.top.overrides)
		}
		for i := range c.Rules {
			if !rules {
				break
			}
			key := c.Rules[i].Key
			if where, twice := keys[key]; twice && key != "" {
				p.Add(c.Places[i], "rule %s: key: %s has the same key: remove one of the two", message.Quote(key), where)
			}
		}
		for name, v := range c.Values {
			if where, twice := names[name]; twice {
				p.Add(v.At, "properties: %s is already given at %s: remove one of the two", message.Quote(name), where)
			}
		}
		for i := range c.Rules {
			if !rules {
				break
			}
			keys[c.Rules[i].Key] = p.place(c.Places[i])
		}
		for name, v := range c.Values {
			names[name] = p.place(v.At)
		}
	}
}
