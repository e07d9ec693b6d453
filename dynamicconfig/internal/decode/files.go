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

// Files reads several config files as one configuration: each, and, if none has problems, the whole.
// There is one file at least.
func Files(files []File) (parts []Result, whole Result) {
	all := make([]*part, len(files))
	for i, f := range files {
		all[i] = newPart(f)
	}
	one := func(what string, has func(*part) ast.Node) {
		var only *part
		for _, p := range all {
			n := has(p)
			switch {
			case n == nil:
			case only == nil:
				only = p
			default:
				p.Add(strictyaml.Place(n), "%s of the whole cluster, and %s has them too: leave them in one file", what, only.place(strictyaml.Place(has(only))))
			}
		}
	}
	var cluster rule.Properties
	if i := slices.IndexFunc(all, func(p *part) bool { return p.settings() != nil }); i >= 0 {
		all[i].decode(rule.Properties{})
		cluster = all[i].content.Properties
	}
	for _, p := range all {
		p.decode(cluster)
	}
	one("unmatched: are settings", func(p *part) ast.Node { return p.top["unmatched"] })
	one("defaults: has settings", (*part).settings)
	taken(all)
	broken := false
	for _, p := range all {
		parts = append(parts, Result{Text: p.Text, Problems: &p.Problems, Content: p.content})
		broken = broken || p.Any()
	}
	if broken {
		return parts, Result{}
	}
	problems := new(strictyaml.Problems)
	b := build.New(problems)
	b.Properties(cluster, nil)
	for _, p := range all {
		b.Merge(p.content)
	}
	return parts, Result{Problems: problems, Content: b.Finish()}
}

// part is one of several files while it is read.
type part struct {
	*decoder
	name    string
	data    []byte
	top     map[string]ast.Node
	rules   *rules         // of a large file, nil of others
	content *build.Content // nil until it was read
}

func newPart(f File) *part {
	p := &part{name: f.Name, data: f.Data}
	p.begin(len(f.Data) >= largeFile)
	return p
}

// begin reads what stands at the top, and, unless the file is large and plain, the rules.
func (p *part) begin(large bool) {
	p.decoder, p.top, p.rules = newDecoder(p.data), make(map[string]ast.Node), nil
	var root ast.Node
	if large {
		p.rules = newRules(p.decoder, nil)
	}
	if p.rules != nil {
		root = p.rules.Root
	} else {
		root = p.Parse()
	}
	if root != nil {
		fields, _ := p.Mapping(root, "the file", knownTop)
		for _, field := range fields {
			p.top[field.Name] = field.Value
		}
	}
}

// settings are the first of the cluster's own settings in the defaults; nil without them.
func (p *part) settings() ast.Node {
	if m, ok := p.Resolve(p.top["defaults"]).(*ast.MappingNode); ok {
		for _, v := range m.Values {
			if propertyFields[v.Key.GetToken().Value] != nil {
				return v.Key
			}
		}
	}
	return nil
}

// decode reads the part once. cluster are the settings that it has from another.
func (p *part) decode(cluster rule.Properties) {
	for p.content == nil {
		limits := p.limitsOf
		if p.rules != nil {
			limits = func(ast.Node) { p.rules.read() }
		}
		p.cluster = cluster
		p.fields(func(name string) ast.Node { return p.top[name] }, limits)
		if p.rules != nil && p.Any() { // the YAML library understands more
			p.begin(false)
			continue
		}
		p.content = p.Finish()
	}
}

// place is a place in p, for messages about another part.
func (p *part) place(at build.Mark) string {
	return fmt.Sprintf("%s:%d:%d", p.name, at.Line, at.Column)
}

// taken reports the keys and names that a part has and an earlier one has, too.
func taken(parts []*part) {
	keys, names, overrides := make(map[string]string), make(map[string]string), make(map[string]string)
	for _, p := range parts {
		c := p.content
		for i := range c.Overrides {
			who := c.Overrides[i].Name()
			if where, twice := overrides[who]; twice {
				p.Add(strictyaml.Place(p.top["overrides"]), "%s: %s has one for the same: remove one of the two", who, where)
			}
			overrides[who] = p.place(strictyaml.Place(p.top["overrides"]))
		}
		for i := range c.Rules {
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
			keys[c.Rules[i].Key] = p.place(c.Places[i])
		}
		for name, v := range c.Values {
			names[name] = p.place(v.At)
		}
	}
}
