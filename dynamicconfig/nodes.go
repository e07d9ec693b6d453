// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"golang.org/x/time/rate"
)

// decoder walks the tree of a config file and hands the builder what it
// finds. How deep it goes is fixed by the fields there are, so an alias
// cannot make it recurse; steps bounds what aliases can repeat.
type decoder struct {
	*builder
	anchors map[string]ast.Node
	steps   int
}

// maxSteps is several times the fields that fit in MaxSize bytes.
const maxSteps = 500_000

// nodeField is one field of a YAML map.
type nodeField struct {
	name  string
	value ast.Node
}

func find(fields []nodeField, name string) ast.Node {
	for _, f := range fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// collectAnchors finds all &names.
func (d *decoder) collectAnchors(root ast.Node) {
	for _, n := range ast.Filter(ast.AnchorType, root) {
		a, ok := n.(*ast.AnchorNode)
		if !ok {
			continue
		}
		name := a.Name.GetToken().Value
		if d.anchors[name] != nil {
			d.add(place(a.Name), "the anchor &%s is given twice: rename one", name)
			continue
		}
		if d.anchors == nil {
			d.anchors = make(map[string]ast.Node)
		}
		d.anchors[name] = a.Value
	}
}

// resolve is what n stands for: anchors and aliases are followed. It is nil
// for an alias of nothing, or of itself.
func (d *decoder) resolve(n ast.Node) ast.Node {
	for range maxNesting {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			n = d.anchors[x.Value.GetToken().Value]
		default:
			return n
		}
	}
	return nil
}

// place is where n begins.
func place(n ast.Node) mark {
	switch x := n.(type) {
	case *ast.AnchorNode:
		return place(x.Value)
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			return place(x.Values[0].Key)
		}
	}
	if t := n.GetToken(); t != nil {
		return markOf(t)
	}
	return mark{}
}

// mapping reads a map whose fields are all among known (nil: any), each
// once, in order. What is wrong is reported and left out; ok is whether n is
// a map at all.
func (d *decoder) mapping(n ast.Node, who string, known []string) (fields []nodeField, ok bool) {
	m, ok := d.resolve(n).(*ast.MappingNode)
	if !ok {
		d.add(place(n), "%s: is %s: write a map of name: value", who, d.kind(n))
		return nil, false
	}
	lines := make(map[string]int, len(m.Values))
	for _, v := range m.Values {
		if d.steps++; d.steps > maxSteps {
			if d.steps == maxSteps+1 {
				d.add(place(n), "%s: aliases repeat too much from here on: use defaults: for what rules share", who)
			}
			return nil, false
		}
		key := v.Key.GetToken()
		at := markOf(key)
		name, isName := d.name(v.Key)
		switch first, twice := lines[name]; {
		case !isName:
			d.add(at, "%s: is no name of a field: write name: value", who)
		case twice:
			d.add(at, "%s: %s is already given in line %d: remove one of the two", who, name, first)
		case known != nil && slices.Contains(laterFields, name):
			d.add(at, "%s: %s is not supported yet: remove it", who, name)
		case known != nil && !slices.Contains(known, name):
			d.add(at, "%s: there is no field %s: %s", who, quote(name), suggest(name, known))
		case v.Value == nil || v.Value.Type() == ast.NullType:
			d.add(at, "%s: %s has no value: write one, or remove it", who, name)
			fields = append(fields, nodeField{name, v.Value})
		default:
			fields = append(fields, nodeField{name, v.Value})
		}
		if isName {
			lines[name] = at.line
		}
	}
	return fields, true
}

// name is the name that a map's key stands for.
func (d *decoder) name(key ast.MapKeyNode) (string, bool) {
	switch x := key.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode:
		return key.GetToken().Value, true
	}
	return "", false
}

// scalar reads n into what to points to, or reports why it cannot.
func (d *decoder) scalar(n ast.Node, who string, to any) bool {
	v := d.resolve(n)
	if v != nil && v.Type() == ast.NullType {
		return false // reported by mapping
	}
	text, quoted, ok := plain(v)
	_, isString := v.(*ast.StringNode)
	_, isLiteral := v.(*ast.LiteralNode)
	_, isBool := v.(*ast.BoolNode)
	var err error
	want := ""
	switch to := to.(type) {
	case *string:
		if *to = text; !ok || !isString && !isLiteral {
			want = `text, in quotes if need be, as in "text"`
		}
	case *bool:
		if *to = strings.EqualFold(text, "true"); !ok || !isBool {
			want = "true or false"
		}
	case *float64:
		if *to, err = parseNumber(text); !ok || quoted || err != nil {
			want = "a number, as in 2000 or 0.5"
		}
	case *int64:
		if *to, err = strconv.ParseInt(text, 10, 64); !ok || quoted || err != nil {
			want = "a whole number, as in 10"
		}
	case *int:
		var f float64
		if f, err = parseNumber(text); !ok || quoted || err != nil || f != float64(int(f)) || f > 1<<53 || f < -1<<53 {
			want = "a whole number, as in 10000"
		}
		*to = int(f)
	case *time.Duration:
		if !ok || isBool {
			want = "a duration, as in 500ms, 3s, 5m, 2h or 1d"
		} else {
			*to, err = ParseDuration(text)
		}
	case orNone:
		if !ok || isBool {
			want = "a duration, as in 500ms, 3s, 5m, 2h or 1d, or 0s for none"
		} else {
			*to.duration, err = parseOrNone(text)
		}
	case capacity:
		if !ok || isBool {
			want = "events per second, minute or hour, as in 1000/s, or 100 in-flight"
		} else {
			*to.amount, *to.inFlight, err = parseCapacity(text)
		}
	case percent:
		if !ok || isBool {
			want = "a part in percent, as in 10%"
		} else {
			*to.part, err = parsePercent(text)
		}
	case *Fallback:
		if !ok {
			want = oneOf(fallbackNames)
		} else {
			*to, err = ParseFallback(text)
		}
	case *Mode:
		if !ok {
			want = oneOf(modeNames)
		} else {
			*to, err = ParseMode(text)
		}
	}
	switch {
	case want != "":
		d.add(place(n), "%s: is %s: write %s", who, d.kind(n), want)
	case err != nil:
		d.add(place(n), "%s: %v", who, err)
	}
	return want == "" && err == nil
}

// capacity is where scalar puts a limit in either unit.
type capacity struct {
	amount   *rate.Limit
	inFlight *bool
}

// orNone is where scalar puts a duration whose 0 is None.
type orNone struct{ duration *time.Duration }

// percent is where scalar puts a part of the whole.
type percent struct{ part *float64 }

// anyScalar reads a string, bool, int64 or float64.
func (d *decoder) anyScalar(n ast.Node, who string) (any, bool) {
	v := d.resolve(n)
	text, quoted, ok := plain(v)
	switch {
	case v != nil && v.Type() == ast.NullType:
		return nil, false // reported by mapping
	case !ok:
		d.add(place(n), "%s: is %s: write one text, number, true or false", who, d.kind(n))
		return nil, false
	case quoted:
		return text, true
	case v.Type() == ast.BoolType:
		return strings.EqualFold(text, "true"), true
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, true
	}
	if f, err := parseNumber(text); err == nil && finite(f) {
		return f, true
	}
	if v.Type() != ast.StringType {
		d.add(place(n), "%s: is %s: write a finite decimal number, or put text in quotes", who, d.kind(n))
		return nil, false
	}
	return text, true
}

// plain is the text of a scalar, and whether it was written in quotes or as
// a block.
func plain(n ast.Node) (text string, quoted, ok bool) {
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

// kind says what n is, for messages.
func (d *decoder) kind(n ast.Node) string {
	switch x := d.resolve(n).(type) {
	case nil:
		return "an alias of nothing"
	case *ast.MappingNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode, *ast.LiteralNode:
		text, _, _ := plain(x)
		return "the text " + quote(text)
	default:
		text, _, _ := plain(x)
		if text == "" {
			return "something else"
		}
		return fmt.Sprintf("%.60s", text)
	}
}

// suggest says which name may have been meant.
func suggest(name string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if n := distance(name, k); n < least && n < len(k) {
			best, least = k, n
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "use " + oneOf(known)
}

// distance is how many bytes must be inserted, removed or replaced to turn
// a into b; 99 when their lengths alone say that it is many.
func distance(a, b string) int {
	if len(a) > len(b)+3 || len(b) > len(a)+3 {
		return 99
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
