// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxSize is the largest config file, in bytes.
const MaxSize = 1 << 20

// Bounds on YAML that keep the parser's time and stack small.
const (
	maxNesting = 32
	maxAnchors = 1000
)

// Parse reads a config file; docs/config.md describes its fields. name is
// for messages, usually the file's path. The error joins an *Error, with
// line, column and a caret, for each mistake that could be told apart, at
// most 20. Unknown fields and fields given twice are mistakes, and so is a
// file without content: a file that an editor just emptied must not lift
// all limits. Parse keeps no part of data.
func Parse(name string, data []byte) (*Snapshot, error) {
	if len(data) > MaxSize {
		return nil, &Error{Name: name, Message: fmt.Sprintf("has %d bytes: use at most %d", len(data), MaxSize)}
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	b := newBuilder(origin{name: name, text: text})
	b.syntax(text)
	if root := b.parse(text); root != nil {
		d := &decoder{builder: b, anchors: make(map[string]ast.Node)}
		d.file(root)
	}
	return b.finish()
}

// parse turns text into a tree, or reports why it cannot.
func (b *builder) parse(text string) (root ast.Node) {
	if len(b.found) > 0 {
		return nil
	}
	defer func() {
		if r := recover(); r != nil { // a defect of the YAML library must not end the process
			root = nil
			b.add(mark{}, "is not YAML that can be read (%v): compare it with the examples in docs/config.md", r)
		}
	}()
	tokens := lexer.Tokenize(text)
	b.tokens(tokens)
	if len(b.found) > 0 {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		b.syntaxError(err)
		return nil
	}
	if len(file.Docs) > 1 {
		at := mark{}
		if start := file.Docs[1].Start; start != nil {
			at = markOf(start)
		}
		b.add(at, "a second document begins: use one, remove the ---")
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		b.add(mark{}, "has no content: write limits: [] to have no limits")
		return nil
	}
	return file.Docs[0].Body
}

// syntax refuses bytes that YAML does not have.
func (b *builder) syntax(text string) {
	line, column := 1, 1
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				b.add(mark{line, column}, "byte %#02x is not UTF-8: save the file as UTF-8", text[i])
				return
			}
		}
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			b.add(mark{line, column}, "the control character %#02x is not YAML: remove it", r)
			return
		}
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
}

// tokens refuses YAML that config files have no use for: what nests so deep
// that a recursive parser is in danger, and what costs it quadratic time.
func (b *builder) tokens(tokens token.Tokens) {
	depth, anchors, line := 0, 0, 0
	var entries, values int // in this line, outside [ ] and { }
	for _, t := range tokens {
		if t.Position.Line != line {
			line, entries, values = t.Position.Line, 0, 0
		}
		problem := ""
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			if depth++; depth > maxNesting {
				problem = "lists and maps nest too deep here: a config file needs no more than three levels"
			}
		case token.SequenceEndType, token.MappingEndType:
			depth = max(depth-1, 0)
		case token.SequenceEntryType:
			if entries++; entries > maxNesting {
				problem = "lists nest too deep here: a config file needs no more than three levels"
			}
		case token.MappingValueType:
			if depth > 0 {
				break
			}
			if values++; values > 1 {
				problem = "a second : in one line: put a value that has one in quotes, and each field in its own line"
			}
		case token.AnchorType:
			if anchors++; anchors > maxAnchors {
				problem = fmt.Sprintf("more than %d anchors: use defaults: for what rules share", maxAnchors)
			}
		case token.MappingKeyType:
			problem = "a ? for a field's name is not supported: write name: value"
		case token.MergeKeyType:
			problem = "<< is not supported: use defaults: for what rules share"
		case token.TagType:
			problem = "tags are not supported: remove it; put text that begins with ! in quotes"
		case token.DirectiveType:
			problem = "directives are not supported: remove the line; put text that begins with % in quotes"
		}
		if problem != "" {
			b.add(markOf(t), "%s", problem)
			return
		}
	}
}

// syntaxError reports what the YAML library says, in this package's form.
func (b *builder) syntaxError(err error) {
	var at mark
	message := err.Error()
	var positioned yaml.Error
	if errors.As(err, &positioned) {
		message = positioned.GetMessage()
		if t := positioned.GetToken(); t != nil {
			at = markOf(t)
		}
	}
	advice := "look for wrong indentation, or for a value with any of : * [ ] { } # that needs quotes"
	switch {
	case strings.Contains(message, "alias"):
		advice = "put a value that begins with * in quotes"
	case strings.Contains(message, `'	'`):
		advice = "indent with spaces"
	}
	b.add(at, "is not YAML (%s): %s", message, advice)
}

func markOf(t *token.Token) mark { return mark{t.Position.Line, t.Position.Column} }
