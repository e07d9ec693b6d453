// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Dialect is how messages advise the writer of one kind of file.
type Dialect struct {
	// Share is what to do instead of repeating or merging fields.
	Share string
	// Reference is where examples are.
	Reference string
	// Empty is what to write in a file that is to hold nothing.
	Empty string
	// Elsewhere says of fields that stand in the wrong map what to do with them.
	Elsewhere map[string]string
	// Other has, by names that other programs give to fields, the names of the fields here.
	Other map[string]string
	// Null: a known field that is null counts as missing, as in JSON.
	Null bool
	// MaxFields is how many fields one map may have; 0 is 2000. The parser takes quadratic
	// time for them: 20,000 take a second or two.
	MaxFields int
}

// File is one text and what is wrong with it. It is for one goroutine.
type File struct {
	Problems

	dialect Dialect
	anchors map[string]ast.Node
	steps   int // bounds what aliases can repeat
}

// NewFile is a File of data, without a byte order mark, its lines ended by
// \n alone. The caller bounds its size.
func NewFile(data []byte, d Dialect) *File {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	return &File{Problems: Problems{Text: text}, dialect: d, anchors: make(map[string]ast.Node)}
}

// Parse turns the text into a tree. It is nil when problems say why.
func (f *File) Parse() (root ast.Node) {
	f.syntax(f.Text)
	if f.Any() {
		return nil
	}
	defer func() {
		if r := recover(); r != nil { // a defect of the YAML library must not end the process
			root = nil
			f.Add(Mark{}, "is not YAML that can be read (%v): compare it with the examples in %s", r, f.dialect.Reference)
		}
	}()
	tokens := lexer.Tokenize(f.Text)
	if at, problem := badEscape(f.Text, tokens); problem != "" {
		f.Add(at, "%s", problem)
		return nil
	}
	f.tokens(tokens)
	if f.Any() {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.syntaxError(err)
		return nil
	}
	if len(file.Docs) > 1 {
		at := Mark{}
		if start := file.Docs[1].Start; start != nil {
			at = markOf(start)
		}
		f.Add(at, "a second document begins: use one, remove the ---")
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		f.Add(Mark{}, "has no content: %s", f.dialect.Empty)
		return nil
	}
	root = file.Docs[0].Body
	f.collectAnchors(root)
	return root
}

// noColon matches lines as `limits`.
var noColon = regexp.MustCompile(`^\s*(- +)?[a-z_]+\s*$`)

// noSpace matches lines as `-key: a` and `limit:5/s`.
var noSpace = regexp.MustCompile(`^\s*(-[a-z]|(- +)?[a-z_]+:[^ ])`)

// syntaxError reports what the YAML library says, in this package's form.
func (f *File) syntaxError(err error) {
	var at Mark
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
	line := f.line(at.Line)
	switch {
	case strings.Contains(message, "escape character"):
		advice = escapeAdvice
	case strings.Contains(line, "{{"), strings.Contains(line, "{%"):
		advice = "this is a template: give what it makes, as of helm template or Jinja"
	case strings.Contains(line, ": *"):
		advice = "put a value that begins with * in quotes"
	case strings.Contains(line, ": [") && strings.Contains(message, "not allowed"):
		advice = "put a value that begins with [ in quotes"
	case strings.Contains(message, `'	'`):
		advice = "indent with spaces"
	case lookalike(line) != "":
		advice = lookalike(line)
	case noColon.MatchString(line):
		advice = "put a : after the name of a field"
	case noSpace.MatchString(line):
		advice = "put a space after the - that begins an item, and after the : of a field"
	}
	f.Add(at, "is not YAML (%s): %s", message, advice)
}

func markOf(t *token.Token) Mark { return Mark{t.Position.Line, t.Position.Column} }
