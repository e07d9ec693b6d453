// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/internal/spelling"
)

// maxSteps is how many fields and items are read beyond those that the text has room for.
const maxSteps = 500_000

// room is how many fields and items a text may have without aliases: each takes 2 bytes.
func (f *File) room() int { return maxSteps + len(f.Text)/2 }

// Field is one field of a YAML map.
type Field struct {
	Name  string
	Value ast.Node
}

// Find is the value of the field called name; nil without one.
func Find(fields []Field, name string) ast.Node {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// collectAnchors finds all &names.
func (f *File) collectAnchors(root ast.Node) {
	for _, n := range ast.Filter(ast.AnchorType, root) {
		a, ok := n.(*ast.AnchorNode)
		if !ok {
			continue
		}
		name := a.Name.GetToken().Value
		if f.anchors[name] != nil {
			f.Add(Place(a.Name), "the anchor &%s is given twice: rename one", name)
			continue
		}
		f.anchors[name] = a.Value
	}
}

// Resolve is what n stands for: anchors and aliases are followed. It is nil
// for an alias of nothing, or of itself.
func (f *File) Resolve(n ast.Node) ast.Node {
	for range maxNesting {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			n = f.anchors[x.Value.GetToken().Value]
		default:
			return n
		}
	}
	return nil
}

// Place is where n begins.
func Place(n ast.Node) Mark {
	switch x := n.(type) {
	case *ast.AnchorNode:
		return Place(x.Value)
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			return Place(x.Values[0].Key)
		}
	}
	if t := n.GetToken(); t != nil {
		return markOf(t)
	}
	return Mark{}
}

// Mapping reads a map whose fields are all among known (nil: any), each
// once, in order. What is wrong is reported and left out, but for fields
// without a value and for misspelt ones, which are reported and read as what
// they were meant to be; ok is whether n is a map at all. who says in messages
// what the map is.
func (f *File) Mapping(n ast.Node, who string, known []string) (fields []Field, ok bool) {
	m, ok := f.Resolve(n).(*ast.MappingNode)
	if !ok {
		example := "name: value"
		if n := slices.Index(known, "limits"); n >= 0 && who == "the file" {
			example += ", as in limits: above the list"
		}
		f.Add(Place(n), "%s: is %s: write a map of %s", who, f.Kind(n), example)
		return nil, false
	}
	fields = make([]Field, 0, len(m.Values))
	lines := make(map[string]int, len(m.Values))
	var misspelt []Field
	for _, v := range m.Values {
		if !f.step(n, who, 1) {
			return nil, false
		}
		key := v.Key.GetToken()
		at := markOf(key)
		name, isName := f.name(v.Key)
		switch first, twice := lines[name]; {
		case !isName:
			f.Add(at, "%s: is no name of a field: write name: value", who)
		case twice:
			f.Add(at, "%s: %s is already given in line %d: remove one of the two", who, name, first)
		case known != nil && !slices.Contains(known, name) && f.full():
			f.more++ // not worth a suggestion
		case known != nil && !slices.Contains(known, name):
			meant := f.meant(name, known)
			if advice := f.dialect.Elsewhere[name]; meant == "" && advice != "" {
				f.Add(at, "%s: %s: %s", who, name, advice)
				break
			}
			remedy := "did you mean " + meant + "?"
			if meant == "" {
				remedy = "use " + message.OneOf(known)
			}
			f.Add(at, "%s: there is no field %s: %s", who, message.Quote(name), remedy)
			misspelt = append(misspelt, Field{meant, v.Value})
		case f.dialect.Null && known != nil && v.Value != nil && v.Value.Type() == ast.NullType:
		case v.Value == nil || v.Value.Type() == ast.NullType:
			f.Add(at, "%s: %s has no value: write one, or remove it", who, name)
			fields = append(fields, Field{name, v.Value})
		default:
			fields = append(fields, Field{name, v.Value})
		}
		if isName {
			lines[name] = at.Line
		}
	}
	for _, meant := range misspelt {
		if _, twice := lines[meant.Name]; meant.Name != "" && !twice {
			fields = append(fields, meant)
			lines[meant.Name] = 0
		}
	}
	return fields, true
}

// meant is the field of known that name was meant to be; empty if that is not clear.
func (f *File) meant(name string, known []string) string {
	if other := f.dialect.Other[strings.ToLower(name)]; slices.Contains(known, other) {
		return other
	}
	return spelling.Nearest(name, known)
}

// name is the name that a map's key stands for.
func (f *File) name(key ast.MapKeyNode) (string, bool) {
	switch x := key.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode:
		return key.GetToken().Value, true
	}
	return "", false
}

// Plain is the text of a scalar, and whether it was written in quotes or as
// a block.
func Plain(n ast.Node) (text string, quoted, ok bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		t := x.Token.Type
		return x.Value, t == token.SingleQuoteType || t == token.DoubleQuoteType, true
	case *ast.LiteralNode:
		return x.Value.Value, true, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return strings.TrimSpace(n.GetToken().Value), false, true
	}
	return "", false, false
}

// Kind says what n is, for messages.
func (f *File) Kind(n ast.Node) string {
	switch x := f.Resolve(n).(type) {
	case nil:
		return "an alias of nothing, because it begins with * and is not in quotes"
	case *ast.MappingNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode, *ast.LiteralNode:
		text, _, _ := Plain(x)
		return "the text " + message.Quote(text)
	default:
		text, _, _ := Plain(x)
		if text == "" {
			return "something else"
		}
		return fmt.Sprintf("%.60s", text)
	}
}

// WantText says what to write in place of n where a text is wanted.
func (f *File) WantText(n ast.Node) string {
	v := f.Resolve(n)
	text, _, ok := Plain(v)
	if alias, is := n.(*ast.AliasNode); is && v == nil {
		text, ok = "*"+alias.Value.GetToken().Value, true
	}
	if !ok {
		return `text, in quotes if need be, as in "text"`
	}
	return "it in quotes, as in " + message.Quote(text)
}

// List reads a list; without one it reports that want is to be written.
func (f *File) List(n ast.Node, who, want string) []ast.Node {
	list, ok := f.Resolve(n).(*ast.SequenceNode)
	if !ok {
		f.Add(Place(n), "%s: is %s: write %s", who, f.Kind(n), want)
		return nil
	}
	if !f.step(n, who, len(list.Values)) {
		return nil
	}
	return list.Values
}

// step counts what is read, and reports whether it is not too much: an alias
// costs little to write and much to read.
func (f *File) step(n ast.Node, who string, count int) bool {
	before := f.steps
	if f.steps += count; f.steps > f.room() && before <= f.room() {
		f.Add(Place(n), "%s: aliases repeat too much from here on: %s", who, f.dialect.Share)
	}
	return f.steps <= f.room()
}

// Exhausted reports whether aliases have repeated so much that no more maps
// and lists are read.
func (f *File) Exhausted() bool { return f.steps > f.room() }
