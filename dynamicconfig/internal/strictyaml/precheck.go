// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"cmp"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// Bounds on YAML that keep the parser's time and stack small: it recurses,
// and takes quadratic time for some of what is bounded here.
const (
	maxNesting    = 32
	maxAnchors    = 1000
	maxFields     = 2000 // of one map, unless the dialect says otherwise
	maxEmptyLines = 100  // in a row
	maxValueless  = 100  // fields without a value
)

// syntax refuses bytes that YAML does not have, and what its scanner is slow
// at.
func (f *File) syntax(text string) {
	line, column, empty := 1, 1, 0
	blank := true // this line, so far
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				f.Add(Mark{line, column}, "byte %#02x is not UTF-8: save the file as UTF-8", text[i])
				return
			}
		}
		if r == '\r' { // \r\n is \n by now
			f.Add(Mark{line, column}, "a line ends with a carriage return (CR) alone: save the file with the line ends of Unix (LF) or Windows (CRLF)")
			return
		}
		if column == 1 && isConflict(text[i:]) {
			f.Add(Mark{line, column}, "git left a conflict here: keep what is meant, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>")
			return
		}
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			f.Add(Mark{line, column}, "the control character %#02x is not YAML: remove it", r)
			return
		}
		if r != '\n' {
			column++
			blank = blank && (r == ' ' || r == '\t')
			continue
		}
		if empty++; !blank {
			empty = 0
		}
		if empty > maxEmptyLines {
			f.Add(Mark{line, 1}, "more than %d empty lines in a row: remove some", maxEmptyLines)
			return
		}
		line, column, blank = line+1, 1, true
	}
}

// tokens refuses YAML that config files have no use for: what nests so deep
// that a recursive parser is in danger, and what costs it quadratic time.
func (f *File) tokens(tokens token.Tokens) {
	c := tokenCheck{share: f.dialect.Share, maxFields: cmp.Or(f.dialect.MaxFields, maxFields)}
	for _, t := range tokens {
		if problem := c.next(t); problem != "" {
			f.Add(markOf(t), "%s", problem)
			return
		}
	}
}

// tokenCheck is what tokens has seen so far.
type tokenCheck struct {
	share     string // see Dialect
	maxFields int    // see Dialect
	line      int
	entries   int // `-` in this line
	values    int // `:` in this line
	anchors   int
	flows     []flow     // [ or { that are open, from the outermost in
	mappings  []blockMap // that may go on, from the outermost in

	valueless int // fields and entries without a value
}

// flow is an open [ or {.
type flow struct {
	isMap  bool
	values int // `:` since the last comma
}

// blockMap counts the fields of a map whose names begin in one column.
type blockMap struct{ column, fields int }

// next looks at one token and says what is wrong with it, if anything is.
func (c *tokenCheck) next(t *token.Token) (problem string) {
	if t.Position.Line != c.line {
		c.line, c.entries, c.values = t.Position.Line, 0, 0
	}
	if len(c.flows) > 0 {
		if problem = c.inFlow(t); problem != "" {
			return problem
		}
	}
	switch t.Type {
	case token.StringType:
		return misplaced(t)
	case token.SequenceStartType, token.MappingStartType:
		if c.flows = append(c.flows, flow{isMap: t.Type == token.MappingStartType}); len(c.flows) > maxNesting {
			return "lists and maps nest too deep here: a config file needs no more than three levels"
		}
	case token.SequenceEntryType:
		if c.entries++; c.entries > maxNesting {
			return "lists nest too deep here: a config file needs no more than three levels"
		}
		c.leave(t.Position.Column)
		return c.value(t, t.Position.Column+1)
	case token.MappingValueType:
		if len(c.flows) > 0 {
			break
		}
		if c.values++; c.values > 1 {
			return secondColon
		}
		if t.Prev != nil {
			if problem = c.field(t.Prev.Position.Column); problem != "" {
				return problem
			}
			return c.value(t, t.Prev.Position.Column)
		}
	case token.AnchorType:
		if c.anchors++; c.anchors > maxAnchors {
			return fmt.Sprintf("more than %d anchors: %s", maxAnchors, c.share)
		}
	case token.MappingKeyType:
		return "a ? for a field's name is not supported: write name: value"
	case token.MergeKeyType:
		return "<< is not supported: " + c.share
	case token.TagType:
		return "tags are not supported: remove it; put text that begins with ! in quotes"
	case token.DirectiveType:
		return "directives are not supported: remove the line; put text that begins with % in quotes"
	}
	return ""
}

const secondColon = "a second : in one field: put a value that has one in quotes, and each field in its own line"

// inFlow looks at a token between [ or { and its end.
func (c *tokenCheck) inFlow(t *token.Token) (problem string) {
	in := &c.flows[len(c.flows)-1]
	switch t.Type {
	case token.MappingValueType:
		if in.values++; in.values > 1 {
			return secondColon
		}
		if t.Next != nil && (t.Next.Type == token.CollectEntryType || t.Next.Type == token.MappingEndType || t.Next.Type == token.SequenceEndType) {
			return c.noValue()
		}
	case token.CollectEntryType, token.MappingEndType, token.SequenceEndType:
		if in.isMap && in.values == 0 && t.Prev != nil && t.Prev.Type != token.MappingStartType {
			problem = c.noValue()
		}
		if in.values = 0; t.Type != token.CollectEntryType {
			c.flows = c.flows[:len(c.flows)-1]
		}
	}
	return problem
}

// field counts a field whose name begins in column.
func (c *tokenCheck) field(column int) (problem string) {
	c.leave(column)
	last := len(c.mappings) - 1
	if last < 0 || c.mappings[last].column < column {
		c.mappings = append(c.mappings, blockMap{column: column})
		last++
	}
	m := &c.mappings[last]
	if m.fields++; m.fields > c.maxFields {
		return fmt.Sprintf("more than %d fields in one map: make several files of it", c.maxFields)
	}
	if len(c.mappings) > maxNesting {
		return "maps nest too deep here: a config file needs no more than three levels"
	}
	return ""
}

// value counts t if no value follows it: if what comes next is in another
// line and not further in than column (a list may begin right there).
func (c *tokenCheck) value(t *token.Token, column int) (problem string) {
	next := t.Next
	for next != nil && next.Type == token.CommentType {
		next = next.Next
	}
	if next != nil {
		at := next.Position
		if at.Line == t.Position.Line || at.Column > column || at.Column == column && next.Type == token.SequenceEntryType {
			return ""
		}
	}
	return c.noValue()
}

func (c *tokenCheck) noValue() (problem string) {
	if c.valueless++; c.valueless > maxValueless {
		return fmt.Sprintf("more than %d fields without a value: write them, or remove the fields", maxValueless)
	}
	return ""
}

// leave ends the maps that are further in than column.
func (c *tokenCheck) leave(column int) {
	for n := len(c.mappings); n > 0 && c.mappings[n-1].column > column; n-- {
		c.mappings = c.mappings[:n-1]
	}
}
