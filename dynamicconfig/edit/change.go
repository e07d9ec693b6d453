// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/render"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// replacement puts text in the place of what is from one place to another.
type replacement struct {
	from, to int
	text     string
}

// replace asks for a replacement; apply makes it.
func (d *document) replace(from, to int, text string) {
	d.changes = append(d.changes, replacement{from, to, text})
}

// apply makes all replacements. Of several insertions at one place, the first asked for
// stands first.
func (d *document) apply() (string, error) {
	slices.SortStableFunc(d.changes, func(a, b replacement) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	at, whole := 0, d.from.whole
	for _, c := range d.changes {
		from, to := d.from.in(c.from), d.from.in(c.to)
		if from < at {
			return "", errors.New("the fields stand too close together to be changed at once: change one at a time")
		}
		b.WriteString(whole[at:from])
		b.WriteString(c.text)
		at = to
	}
	b.WriteString(whole[at:])
	return b.String(), nil
}

// set changes, adds or removes one field of a rule.
func (d *document) set(r rule, f Field) {
	v := field(r.node, f.Name)
	switch {
	case v == nil && f.Value == "":
	case v == nil && r.node.IsFlowStyle:
		_, end := d.flowField(after(r.node))
		d.replace(end, end, ", "+d.shown(f))
	case v == nil:
		last := after(r.node)
		begin := d.at(last.Key.GetToken())
		d.insertLine(d.block(begin), strings.Repeat(" ", begin-d.lineOf(begin))+d.shown(f))
	case r.node.IsFlowStyle && f.Value == "":
		d.removeBetween(d.flowField(v))
	case r.node.IsFlowStyle:
		begin, end := d.flowField(v)
		d.replace(begin, end, d.shown(f))
	case f.Value == "":
		d.removeField(r, v)
	default:
		d.replaceField(v, f)
	}
}

// after is the field after which a new one stands: the limit, or else the last.
func after(m *ast.MappingNode) *ast.MappingValueNode {
	if v := field(m, "limit"); v != nil {
		return v
	}
	return m.Values[len(m.Values)-1]
}

// flowField is where a field of { } begins and ends.
func (d *document) flowField(v *ast.MappingValueNode) (begin, end int) {
	return d.at(v.Key.GetToken()), d.scalar(d.place(strictyaml.Place(v.Value)), true)
}

// replaceField changes a field that stands in lines of its own.
func (d *document) replaceField(v *ast.MappingValueNode, f Field) {
	begin := d.at(v.Key.GetToken())
	end := d.block(begin)
	if d.nextLine(begin) == end { // a comment may follow the value
		d.replace(begin, d.scalar(d.place(strictyaml.Place(v.Value)), false), d.shown(f))
		return
	}
	d.replace(begin, end, d.shown(f)+d.end)
}

// removeField removes a field that stands in lines of its own.
func (d *document) removeField(r rule, v *ast.MappingValueNode) {
	begin := d.at(v.Key.GetToken())
	if v != r.node.Values[0] {
		d.replace(d.lineOf(begin), d.block(begin), "")
		return
	}
	if len(r.node.Values) > 1 { // the next field takes its place behind the dash
		d.replace(begin, d.at(r.node.Values[1].Key.GetToken()), "")
	}
}

// removeBetween removes what is between two places of [ ] or { }, with one of the commas
// beside it.
func (d *document) removeBetween(from, to int) {
	before := strings.TrimRight(d.text[:from], " \t\r\n")
	if strings.HasSuffix(before, ",") {
		d.replace(len(before)-1, to, "")
		return
	}
	after := strings.TrimLeft(d.text[to:], " \t\r\n")
	if rest, ok := strings.CutPrefix(after, ","); ok {
		after = strings.TrimLeft(rest, " \t\r\n")
		to = len(d.text) - len(after)
	}
	d.replace(from, to, "")
}

// insertLine inserts lines, without the end of the last, at a place where a line begins, or at the end.
func (d *document) insertLine(at int, line string) {
	if at > 0 && d.text[at-1] != '\n' {
		line = d.end + line
	}
	d.replace(at, at, line+d.end)
}

// remove removes a rule.
func (d *document) remove(r rule) {
	if r.dash < 0 {
		begin := d.at(r.node.Start)
		d.removeBetween(begin, d.brackets(begin))
		return
	}
	d.replace(d.commentAbove(r.dash), d.block(r.dash), "")
	if len(d.rules) == 1 {
		colon := d.at(d.limits.Start)
		d.replace(colon+1, colon+1, " []")
	}
}

// add adds a rule before another one with a key, or as the last if before is empty.
func (d *document) add(before string, fields []Field) {
	if len(d.rules) == 0 && d.inFlow() {
		d.setInRoot(d.limits, "limits", "["+d.braces(fields)+"]")
		return
	}
	if d.limits == nil {
		d.insertLine(len(d.text), "limits:"+d.end+d.item("  ", " ", fields))
		return
	}
	if len(d.rules) == 0 { // limits: []
		begin := d.place(strictyaml.Place(d.limits.Value))
		d.replace(d.at(d.limits.Start)+1, d.brackets(begin), "")
		d.insertLine(d.nextLine(begin), d.item("  ", " ", fields))
		return
	}
	like := d.rules[len(d.rules)-1]
	if r, ok := d.rule(before); ok {
		like = r
	}
	if like.dash < 0 {
		d.addBetween(like, before != "", d.braces(fields))
		return
	}
	begin := d.lineOf(like.dash)
	indent := strings.Repeat(" ", like.dash-begin)
	text := indent + "- " + d.braces(fields)
	if !like.node.IsFlowStyle {
		inner := d.at(like.node.Values[0].Key.GetToken()) - like.dash
		text = d.item(indent, strings.Repeat(" ", max(inner-1, 1)), fields)
	}
	at := d.block(like.dash)
	if before != "" {
		at = d.commentAbove(like.dash)
	}
	d.insertLine(at, text)
}

// addBetween adds a rule to a list of [ ], before or after another rule.
func (d *document) addBetween(like rule, before bool, text string) {
	begin := d.at(like.node.Start)
	comma := d.comma(begin)
	if before {
		d.replace(begin, begin, text+comma)
		return
	}
	end := d.brackets(begin)
	d.replace(end, end, comma+text)
}

// item is a rule in lines of its own; gap stands between the dash and the fields.
func (d *document) item(indent, gap string, fields []Field) string {
	var b strings.Builder
	for i, f := range fields {
		lead := indent + "-" + gap
		if i > 0 {
			lead = d.end + indent + " " + gap
		}
		b.WriteString(lead + d.shown(f))
	}
	return b.String()
}

// braces is a rule between { }.
func (d *document) braces(fields []Field) string {
	shown := make([]string, len(fields))
	for i, f := range fields {
		shown[i] = d.shown(f)
	}
	return "{" + strings.Join(shown, ", ") + "}"
}

// setInRoot sets a field of a file that stands between { }; v is that field, or nil if there is none.
func (d *document) setInRoot(v *ast.MappingValueNode, name, value string) {
	text := strconv.Quote(name) + ": " + value
	switch {
	case v != nil:
		begin, end := d.flowField(v)
		d.replace(begin, end, text)
	case len(d.root.Values) == 0:
		begin := d.at(d.root.Start)
		d.replace(begin+1, begin+1, text)
	default:
		last := d.root.Values[len(d.root.Values)-1]
		begin, end := d.flowField(last)
		d.replace(end, end, d.comma(begin)+text)
	}
}

// comma stands before what is added beside what begins at a place: in a line of its own if that
// stands in one.
func (d *document) comma(begin int) string {
	if line := d.lineOf(begin); line > 0 && strings.TrimSpace(d.text[line:begin]) == "" {
		return "," + d.end + d.text[line:begin]
	}
	return ", "
}

// plain are values that mean the same without quotes, wherever they stand.
var plain = regexp.MustCompile(`^-?[A-Za-z0-9]([A-Za-z0-9 ./%+_-]*[A-Za-z0-9./%+_-])?$`)

// shown is f as the file has it.
func (d *document) shown(f Field) string {
	value := strings.TrimSpace(f.Value)
	text := f.Name == "key" || f.Name == "description"
	if d.inFlow() {
		return strconv.Quote(f.Name) + ": " + asJSON(value, text)
	}
	if text || !strings.HasPrefix(value, "{") && !plain.MatchString(value) {
		value = render.Scalar(value)
	}
	return f.Name + ": " + value
}

// asJSON is a value in one line of JSON; text says that it is text whatever it looks like.
func asJSON(value string, text bool) string {
	if !text {
		if data, err := yaml.YAMLToJSON([]byte(value)); err == nil && json.Valid(data) { // control characters come out as in YAML
			return strings.TrimSpace(string(data))
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // a string has no error
	return strings.TrimSpace(b.String())
}
