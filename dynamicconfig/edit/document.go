// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// document is an excerpt of a config file as text and as a tree. All places are bytes of text.
type document struct {
	from  excerpt
	text  string
	lines []int // where each line begins
	end   string

	root      *ast.MappingNode
	limits    *ast.MappingValueNode // nil without the field
	overrides *ast.MappingValueNode // nil without the field
	rules     []rule
	numbers   map[string]int // of rules, by their keys

	changes []replacement // to be made
}

var errLayout = errors.New("the text has a layout that cannot be changed in one place: edit it by hand")

// rule is one rule of the list.
type rule struct {
	key  string
	dash int // where its - is; -1 in a list of [ ]
	node *ast.MappingNode
}

// read finds the rules of x, which is of a valid config file.
func read(x excerpt) (*document, error) {
	text := x.text()
	d := &document{from: x, text: text, end: "\n", lines: []int{0}, numbers: make(map[string]int)}
	if strings.Contains(text, "\r\n") {
		d.end = "\r\n"
	}
	for i := range len(text) {
		if text[i] == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	f := strictyaml.NewFile([]byte(text), strictyaml.Dialect{})
	root, ok := f.Parse().(*ast.MappingNode)
	if !ok {
		return nil, errLayout
	}
	d.root = root
	for _, v := range root.Values {
		switch v.Key.GetToken().Value {
		case "limits":
			d.limits = v
		case "overrides":
			d.overrides = v
		}
	}
	if d.limits == nil {
		return d, nil
	}
	list, _ := f.Resolve(d.limits.Value).(*ast.SequenceNode)
	if list == nil {
		return nil, errLayout
	}
	for _, item := range list.Values {
		m, ok := f.Resolve(item).(*ast.MappingNode)
		if !ok {
			return nil, errLayout
		}
		r := rule{dash: -1, node: m}
		if key := field(m, "key"); key != nil {
			r.key, _, _ = strictyaml.Plain(f.Resolve(key.Value))
		}
		if !list.IsFlowStyle {
			r.dash = d.dashBefore(m)
		}
		d.numbers[r.key] = len(d.rules)
		d.rules = append(d.rules, r)
	}
	return d, nil
}

// inFlow reports whether the whole file stands between { }, as JSON does. What is added is JSON then.
func (d *document) inFlow() bool { return d.root.IsFlowStyle }

// rule finds the rule with exactly this key.
func (d *document) rule(key string) (rule, bool) {
	i, ok := d.numbers[key]
	if !ok {
		return rule{}, false
	}
	return d.rules[i], true
}

// field finds a field of a rule; nil without it.
func field(m *ast.MappingNode, name string) *ast.MappingValueNode {
	for _, v := range m.Values {
		if v.Key.GetToken().Value == name {
			return v
		}
	}
	return nil
}

// at is the place of a token.
func (d *document) at(t *token.Token) int {
	return d.place(strictyaml.Mark{Line: t.Position.Line, Column: t.Position.Column})
}

func (d *document) place(m strictyaml.Mark) int {
	at := d.lines[min(m.Line, len(d.lines))-1]
	if m.Line == 1 && strings.HasPrefix(d.text, "\ufeff") {
		at += len("\ufeff")
	}
	rest := d.text[at:]
	column := 1
	for i := range rest {
		if column == m.Column {
			return at + i
		}
		column++
	}
	return len(d.text)
}

// dashBefore is where the - of a rule is.
func (d *document) dashBefore(m *ast.MappingNode) int {
	t := m.Start
	if !m.IsFlowStyle && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken()
	}
	for ; t != nil; t = t.Prev {
		if t.Type == token.SequenceEntryType {
			return d.at(t)
		}
	}
	return -1
}

// lineOf is where the line of a place begins, and nextLine where the next one does.
func (d *document) lineOf(at int) int {
	i, found := slices.BinarySearch(d.lines, at)
	if !found {
		i--
	}
	return d.lines[i]
}

func (d *document) nextLine(at int) int {
	if i := strings.IndexByte(d.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(d.text)
}

// block is where the part ends that begins at a place in a block, in column of that
// place: all lines further in, but no comments and empty lines after the last of them
// unless the comment is further in too.
func (d *document) block(at int) (end int) {
	column := at - d.lineOf(at)
	end = d.nextLine(at)
	for line := end; line < len(d.text); line = d.nextLine(line) {
		indent, rest := d.indentOf(line)
		blank := rest == "" || rest[0] == '#'
		if !blank && indent <= column {
			break
		}
		if rest != "" && indent > column {
			end = d.nextLine(line)
		}
	}
	return end
}

// indentOf is how far in a line is, and the line from there on.
func (d *document) indentOf(line int) (indent int, rest string) {
	text := strings.TrimRight(d.text[line:d.nextLine(line)], "\r\n")
	rest = strings.TrimLeft(text, " ")
	return len(text) - len(rest), strings.TrimSpace(rest)
}

// commentAbove is where the comment begins that stands just above the line of a place, in
// the same column; that line if there is none.
func (d *document) commentAbove(at int) int {
	begin := d.lineOf(at)
	column := at - begin
	for begin > 0 {
		above := d.lineOf(begin - 1)
		indent, rest := d.indentOf(above)
		if !strings.HasPrefix(rest, "#") || indent != column {
			break
		}
		begin = above
	}
	return begin
}

// scalar is where the value ends that begins at a place; inFlow is whether it stands
// between [ ] or { }.
func (d *document) scalar(at int, inFlow bool) (end int) {
	if at == len(d.text) {
		return at
	}
	switch d.text[at] {
	case '"', '\'':
		return d.quoted(at)
	case '[', '{':
		return d.brackets(at)
	}
	stop := "\n"
	if inFlow {
		stop = "\n,]}"
	}
	end = at
	for end < len(d.text) && !strings.ContainsRune(stop, rune(d.text[end])) && !d.comment(end) {
		end++
	}
	return at + len(strings.TrimRight(d.text[at:end], " \t\r"))
}

// comment reports whether a comment begins at a place.
func (d *document) comment(at int) bool {
	return d.text[at] == '#' && (at == 0 || strings.ContainsRune(" \t\n", rune(d.text[at-1])))
}

// quoted is where the quotes end that begin at a place.
func (d *document) quoted(at int) int {
	quote := d.text[at]
	for i := at + 1; i < len(d.text); i++ {
		switch {
		case quote == '"' && d.text[i] == '\\':
			i++
		case d.text[i] != quote:
		case quote == '\'' && i+1 < len(d.text) && d.text[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return len(d.text)
}

// brackets is where the [ ] or { } end that begin at a place.
func (d *document) brackets(at int) int {
	open := 0
	for i := at; i < len(d.text); {
		switch c := d.text[i]; {
		case d.comment(i):
			i = d.nextLine(i)
			continue
		case strings.ContainsRune("[{", rune(c)):
			open++
		case strings.ContainsRune("]}", rune(c)):
			if open--; open == 0 {
				return i + 1
			}
		case strings.ContainsRune(`"'`, rune(c)) && strings.ContainsRune(" \t\n,[{:", rune(d.text[max(i-1, 0)])):
			i = d.quoted(i)
			continue
		}
		i++
	}
	return len(d.text)
}
