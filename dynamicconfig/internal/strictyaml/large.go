// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Items is where the items of the field list begin and end, which are lines of their own: one may begin in each
// line that has the same indentation as the first. ok is false if the text is not plain, or has no such field.
func (f *File) Items(list string) (begin, end int, ok bool) {
	if !plainText(f.Text) {
		return 0, 0, false
	}
	head := "\n" + list + ":\n"
	begin = strings.Index("\n"+f.Text, head)
	if begin < 0 || strings.Contains(f.Text[begin+len(head)-1:], head) {
		return 0, 0, false
	}
	begin += len(head) - 1
	for end = begin; end < len(f.Text) && inList(f.Text, end); end = lineEnd(f.Text, end) {
	}
	return begin, end, true
}

// Ends is where each item of a list ends, from a place on at which one begins. list has the lines that Items found. It
// stops with -1 at an item that cannot be read by itself.
func Ends(list string, at int) iter.Seq[int] {
	return func(yield func(int) bool) {
		x := &items{text: list, at: at, dash: -1}
		for {
			n, ok := x.next()
			if !ok {
				yield(-1)
			}
			if n == nil || !yield(x.at) {
				return
			}
		}
	}
}

// plainText reports whether a text has nothing that File.syntax refuses, no tabs, and nothing
// that refers from one place to another.
func plainText(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\n' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(text) && !strings.Contains(text, strings.Repeat("\n", maxEmptyLines/2))
}

// inList reports whether a line that begins at a place can be one of a list at the top.
func inList(text string, at int) bool {
	c := text[at]
	return c == ' ' || c == '\n' || c == '#' || c == '-' && !strings.HasPrefix(text[at:], "---")
}

// lineEnd is where the line after that of a place begins.
func lineEnd(text string, at int) int {
	if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// items reads the items of a list in block style.
type items struct {
	text string
	at   int // where the next line begins
	line int // its number
	dash int // the column of the dashes, from 0; -1 before the first

	item ast.MappingNode
	used int
	slab [64]slot
	top  token.Token
	pos  token.Position
}

// slot is the memory of a field; the next item uses it again.
type slot struct {
	field                       ast.MappingValueNode
	name, value                 ast.StringNode
	number                      ast.IntegerNode
	nameToken, valueToken       token.Token
	namePosition, valuePosition token.Position
}

var noComments ast.BaseNode

// next is the next item; nil after the last. ok is false if it does not understand the one that is there.
func (x *items) next() (n ast.Node, ok bool) {
	for {
		if x.at >= len(x.text) {
			return nil, true
		}
		indent, blank := x.indent(x.at)
		if !blank {
			if x.text[x.at+indent] != '-' || x.dash >= 0 && indent != x.dash {
				return nil, false
			}
			x.dash = indent
			break
		}
		x.skip()
	}
	at, line := x.at, x.line
	if x.simple() {
		return &x.item, true
	}
	x.at, x.line = at, line
	if n = x.other(); n == nil {
		x.line = line
	}
	return n, n != nil
}

// indent is how far in a line is, and whether it has no more than a comment.
func (x *items) indent(at int) (n int, blank bool) {
	for at+n < len(x.text) && x.text[at+n] == ' ' {
		n++
	}
	return n, at+n == len(x.text) || x.text[at+n] == '\n' || x.text[at+n] == '#'
}

func (x *items) skip() {
	x.at = lineEnd(x.text, x.at)
	x.line++
}

// simple reads an item that is a map in braces in one line, or a map of single values in one
// line each. It returns false if the item is something else.
func (x *items) simple() bool {
	x.used = 0
	x.item = ast.MappingNode{BaseNode: &noComments, Values: x.item.Values[:0]}
	begin := x.at
	at := begin + x.dash + 1
	if at >= len(x.text) || x.text[at] != ' ' {
		return false
	}
	for at < len(x.text) && x.text[at] == ' ' {
		at++
	}
	if at < len(x.text) && x.text[at] == '{' {
		return x.braces(begin, at)
	}
	column := at - begin
	for {
		end, ok := x.field(begin, at, false)
		if !ok || !x.restIsComment(end) {
			return false
		}
		x.skip()
		for { // to the next field
			if x.at == len(x.text) {
				return true
			}
			indent, blank := x.indent(x.at)
			switch {
			case blank:
				x.skip()
				continue
			case indent <= x.dash:
				return true
			case indent != column:
				return false
			}
			break
		}
		begin, at = x.at, x.at+column
	}
}

// braces reads the fields from { to }.
func (x *items) braces(begin, at int) bool {
	x.pos = token.Position{Line: x.line, Column: x.column(begin, at)}
	x.top = token.Token{Type: token.MappingStartType, Value: "{", Position: &x.pos}
	x.item.Start, x.item.IsFlowStyle = &x.top, true
	for at++; ; {
		at = x.spaces(at)
		end, ok := x.field(begin, at, true)
		if !ok {
			return false
		}
		at = x.spaces(end)
		if at == len(x.text) {
			return false
		}
		switch x.text[at] {
		case ',':
			at++
		case '}':
			if !x.restIsComment(at + 1) {
				return false
			}
			x.skip()
			// A line that is further in would belong to this one.
			for x.at < len(x.text) {
				indent, blank := x.indent(x.at)
				if !blank {
					return indent <= x.dash
				}
				x.skip()
			}
			return true
		default:
			return false
		}
	}
}

func (x *items) spaces(at int) int {
	for at < len(x.text) && x.text[at] == ' ' {
		at++
	}
	return at
}

// column is that of a place in the line that begins at begin, from 1.
func (x *items) column(begin, at int) int { return utf8.RuneCountInString(x.text[begin:at]) + 1 }

// restIsComment reports whether nothing more than a comment follows in the line.
func (x *items) restIsComment(at int) bool {
	begin := at
	at = x.spaces(at)
	return at == len(x.text) || x.text[at] == '\n' || x.text[at] == '#' && at > begin
}

// field reads name: value.
func (x *items) field(begin, at int, inBraces bool) (end int, ok bool) {
	if x.used == len(x.slab) {
		return 0, false
	}
	s := &x.slab[x.used]
	name := at
	for at < len(x.text) && (x.text[at] >= 'a' && x.text[at] <= 'z' || x.text[at] == '_') {
		at++
	}
	if at == name || !strings.HasPrefix(x.text[at:], ": ") {
		return 0, false
	}
	s.namePosition = token.Position{Line: x.line, Column: x.column(begin, name)}
	s.nameToken = token.Token{Type: token.StringType, Value: x.text[name:at], Position: &s.namePosition}
	s.name = ast.StringNode{BaseNode: &noComments, Token: &s.nameToken, Value: s.nameToken.Value}
	at = x.spaces(at + 1)
	value, end, ok := x.value(s, begin, at, inBraces)
	if !ok || isWord(s.nameToken.Value) {
		return 0, false
	}
	s.field = ast.MappingValueNode{BaseNode: &noComments, Key: &s.name, Value: value}
	x.item.Values = append(x.item.Values, &s.field)
	x.used++
	return end, true
}

// isWord reports whether a text without quotes is no text in YAML.
func isWord(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false") || strings.EqualFold(text, "null")
}

// value reads a single value.
func (x *items) value(s *slot, begin, at int, inBraces bool) (n ast.Node, end int, ok bool) {
	if at == len(x.text) {
		return nil, 0, false
	}
	kind, text := token.StringType, ""
	switch quote := x.text[at]; quote {
	case '"', '\'':
		length := strings.IndexByte(x.text[at+1:], quote)
		if length < 0 {
			return nil, 0, false
		}
		text, end = x.text[at+1:at+1+length], at+length+2
		if strings.ContainsAny(text, "\\\n") || quote == '\'' && strings.HasPrefix(x.text[end:], "'") {
			return nil, 0, false
		}
		if kind = token.DoubleQuoteType; quote == '\'' {
			kind = token.SingleQuoteType
		}
	default:
		for end = at; end < len(x.text) && plainByte(x.text[end]); end++ {
		}
		text = strings.TrimRight(x.text[at:end], " ")
		end = at + len(text)
		if text == "" || strings.IndexByte(" ./%_-", text[0]) >= 0 {
			return nil, 0, false
		}
		rest := x.text[x.spaces(end):]
		if rest != "" && rest[0] != '\n' && rest[0] != '#' && (!inBraces || rest[0] != ',' && rest[0] != '}') {
			return nil, 0, false
		}
	}
	s.valuePosition = token.Position{Line: x.line, Column: x.column(begin, at)}
	if kind == token.StringType && (text[0] <= '9' && !strings.ContainsAny(text, "/%") || isWord(text)) {
		if len(text) < 10 && text[0] > '0' && strings.Trim(text, "0123456789") == "" {
			s.valueToken = token.Token{Type: token.IntegerType, Value: text, Position: &s.valuePosition}
			s.number = ast.IntegerNode{BaseNode: &noComments, Token: &s.valueToken}
			return &s.number, end, true
		}
		t := token.New(text, text, &s.valuePosition)
		switch t.Type {
		case token.IntegerType:
			return ast.Integer(t), end, true
		case token.FloatType:
			return ast.Float(t), end, true
		case token.BoolType:
			return ast.Bool(t), end, true
		case token.StringType:
		default:
			return nil, 0, false
		}
	}
	s.valueToken = token.Token{Type: kind, Value: text, Position: &s.valuePosition}
	s.value = ast.StringNode{BaseNode: &noComments, Token: &s.valueToken, Value: text}
	return &s.value, end, true
}

// plainByte reports whether b means itself in a value without quotes.
func plainByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte(" ./%_-", b) >= 0
}

// maxOther bounds the bytes of an item that the YAML library reads alone.
const maxOther = 1 << 14

// other has the YAML library read an item; nil if it is no map.
func (x *items) other() (n ast.Node) {
	defer func() {
		if recover() != nil { // Parse reports it
			n = nil
		}
	}()
	begin, line := x.at, x.line
	x.skip()
	for x.at < len(x.text) {
		if indent, blank := x.indent(x.at); !blank && indent <= x.dash {
			break
		}
		x.skip()
	}
	text := x.text[begin:x.at]
	if len(text) > maxOther {
		return nil
	}
	tokens := lexer.Tokenize(text)
	if _, problem := badEscape(text, tokens); problem != "" {
		return nil
	}
	check := &tokenCheck{maxFields: maxFields}
	for _, t := range tokens {
		if t.Type == token.AnchorType || t.Type == token.AliasType || check.next(t) != "" {
			return nil
		}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil || len(file.Docs) != 1 {
		return nil
	}
	list, ok := file.Docs[0].Body.(*ast.SequenceNode)
	if !ok || len(list.Values) != 1 {
		return nil
	}
	for _, t := range tokens {
		t.Position.Line += line - 1
	}
	return list.Values[0]
}
