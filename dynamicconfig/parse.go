// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxSize is the largest config file, in bytes.
const MaxSize = 1 << 20

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

// syntaxError reports what the YAML library says, in this package's form.
func (b *builder) syntaxError(err error) {
	var at mark
	var message string
	positioned, ok := errors.AsType[yaml.Error](err)
	if !ok {
		message = err.Error()
	} else { // whose Error() takes quadratic time in a long line
		message = positioned.GetMessage()
		if t := positioned.GetToken(); t != nil {
			at = markOf(t)
		}
	}
	advice := "look for wrong indentation, or for a value with any of : * [ ] { } # that needs quotes"
	line := b.origin.errorAt(at, "").Source
	switch {
	case strings.Contains(line, ": *"):
		advice = "put a value that begins with * in quotes"
	case strings.Contains(line, ": [") && strings.Contains(message, "not allowed"):
		advice = "put a value that begins with [ in quotes"
	case strings.Contains(message, `'	'`):
		advice = "indent with spaces"
	}
	b.add(at, "is not YAML (%s): %s", message, advice)
}

func markOf(t *token.Token) mark { return mark{t.Position.Line, t.Position.Column} }
