// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// File is one of several config files that are one configuration together.
type File struct {
	// Name is for messages, and different in each file.
	Name string
	Data []byte
}

// ParseFiles reads several config files as one configuration, which is called name. Their
// rules follow each other in the order of files. The defaults of rules hold in their file
// only. One file may have the cluster's own settings, such as update_interval, and one may have
// unmatched. A key or the name of a property that two files have is a mistake, as is no file at
// all. For the rest, see Parse. Each file has at most MaxSize bytes, and all of them MaxLargeSize.
func ParseFiles(name string, files []File) (*Snapshot, error) {
	size := 0
	for _, f := range files {
		if size += len(f.Data); len(f.Data) > MaxSize {
			return nil, &Error{Name: f.Name, Message: fmt.Sprintf("has %d bytes: use at most %d, and more files", len(f.Data), MaxSize)}
		}
	}
	switch {
	case len(files) == 0:
		return nil, &Error{Name: name, Message: "has no file: write one with limits: [] to have no limits"}
	case size > MaxLargeSize:
		return nil, &Error{Name: name, Message: fmt.Sprintf("has %d bytes: use at most %d", size, MaxLargeSize)}
	}
	parts := make([]*part, len(files))
	var cluster Properties
	for i, f := range files {
		parts[i] = newPart(f)
	}
	one := func(what string, has func(*part) ast.Node) (only *part) {
		for _, p := range parts {
			n := has(p)
			switch {
			case n == nil:
			case only == nil:
				only = p
			default:
				p.add(strictyaml.Place(n), "%s of the whole cluster, and %s has them too: leave them in one file", what, only.place(strictyaml.Place(has(only))))
			}
		}
		return only
	}
	one("unmatched: are settings", func(p *part) ast.Node { return p.top["unmatched"] })
	if first := one("defaults: has settings", (*part).settings); first != nil {
		first.decode(Properties{})
		cluster = first.snapshot.properties
	}
	for _, p := range parts {
		p.decode(cluster)
	}
	taken(parts)
	errs := make([]error, len(parts))
	for i, p := range parts {
		errs[i] = p.err()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return merged(name, parts, cluster)
}

// part is one of several files while it is read.
type part struct {
	*decoder
	top  map[string]ast.Node
	done bool
}

func newPart(f File) *part {
	p := &part{decoder: newDecoder(f.Name, f.Data), top: make(map[string]ast.Node)}
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
func (p *part) decode(cluster Properties) {
	if !p.done {
		p.done = true
		p.cluster = cluster
		p.fields(func(name string) ast.Node { return p.top[name] })
	}
}

// place is a place in p, for messages about another part.
func (p *part) place(at mark) string {
	return fmt.Sprintf("%s:%d:%d", p.snapshot.Name(), at.Line, at.Column)
}

// taken reports the keys and names that a part has and an earlier one has, too.
func taken(parts []*part) {
	keys, names, overrides := make(map[string]string), make(map[string]string), make(map[string]string)
	for _, p := range parts {
		s := p.snapshot
		for i := range s.overrides {
			who := s.overrides[i].Name()
			if where, twice := overrides[who]; twice {
				p.add(strictyaml.Place(p.top["overrides"]), "%s: %s has one for the same: remove one of the two", who, where)
			}
			overrides[who] = p.place(strictyaml.Place(p.top["overrides"]))
		}
		for i := range s.rules {
			key := s.rules[i].Key
			if where, twice := keys[key]; twice && key != "" {
				p.add(s.places[i], "rule %s: key: %s has the same key: remove one of the two", message.Quote(key), where)
			}
		}
		for name, v := range s.values.byName {
			if where, twice := names[name]; twice {
				p.add(v.at, "properties: %s is already given at %s: remove one of the two", message.Quote(name), where)
			}
		}
		for i := range s.rules {
			keys[s.rules[i].Key] = p.place(s.places[i])
		}
		for name, v := range s.values.byName {
			names[name] = p.place(v.at)
		}
	}
}

// merged is the configuration of all parts, which have no mistakes.
func merged(name string, parts []*part, cluster Properties) (*Snapshot, error) {
	b := newBuilder(origin{name: name}, new(strictyaml.Problems))
	b.properties(cluster, nil)
	all := b.snapshot
	for _, p := range parts {
		s := p.snapshot
		all.parts = append(all.parts, s)
		for i := range s.rules {
			all.rules = append(all.rules, s.rules[i])
			all.places = append(all.places, s.places[i])
			b.places = append(b.places, mark{})
			b.key(len(all.rules)-1, &entry{
				who: "rule " + message.Quote(s.rules[i].Key), rule: Rule{Key: s.rules[i].Key, Shared: s.rules[i].Shared}, fields: fields{{name: "key"}},
			})
		}
		all.overrides = append(all.overrides, s.overrides...)
		all.uses = append(all.uses, s.uses...)
		all.private = all.private || s.private
		if s.unmatched != UnmatchedAllow {
			all.unmatched, all.unmatchedRule = s.unmatched, s.unmatchedRule
		}
		for name, v := range s.values.byName {
			b.value(name, v.v, mark{})
		}
	}
	return b.finish()
}
