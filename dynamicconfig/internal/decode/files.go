// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"

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
	one := func(what string, has func(*part) ast.Node) (only *part) {
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
		return only
	}
	one("unmatched: are settings", func(p *part) ast.Node { return p.top["unmatched"] })
	var cluster rule.Properties
	if first := one("defaults: has settings", (*part).settings); first != nil {
		first.decode(rule.Properties{})
		cluster = first.content.Properties
	}
	for _, p := range all {
		p.decode(cluster)
	}
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
	top     map[string]ast.Node
	content *build.Content // nil until it was read
}

func newPart(f File) *part {
	p := &part{decoder: newDecoder(f.Data), name: f.Name, top: make(map[string]ast.Node)}
	if root := p.Parse(); root != nil {
		fields, _ := p.Mapping(root, "the file", knownTop)
		for _, field := range fields {
			p.top[field.Name] = field.Value
		}
	}
	return p
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
	if p.content == nil {
		p.cluster = cluster
		p.fields(func(name string) ast.Node { return p.top[name] }, p.limitsOf)
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
