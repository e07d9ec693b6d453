// SPDX-License-Identifier: Apache-2.0

// Package nodes reads a tree of YAML, field by field, and collects what is wrong with it, with
// line and column. It does not know what the fields mean.
package nodes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// Decoder reads a tree of YAML and collects what is wrong with it.
type Decoder struct {
	// Name is for messages, and Text what is read.
	Name, Text string

	// Errs are what is wrong, as far as it is worth reading at once.
	Errs []error
}

// maxErrors is how many mistakes are worth reading at once.
const maxErrors = 20

// Fields says what to do with each field of a map.
type Fields map[string]func(n ast.Node)

// Fail notes what is wrong at n, and what to do.
func (d *Decoder) Fail(n ast.Node, format string, args ...any) {
	line, column := 0, 0
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		p := n.GetToken().Position
		if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
			p = m.Values[0].Key.GetToken().Position
		}
		line, column = p.Line, p.Column
	}
	d.failAt(line, column, fmt.Sprintf(format, args...))
}

func (d *Decoder) failAt(line, column int, message string) {
	if len(d.Errs) >= maxErrors {
		return
	}
	e := &dynamicconfig.Error{Name: d.Name, Line: line, Column: column, Message: message}
	rest := d.Text
	for n := 1; n < line; n++ {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	e.Source, _, _ = strings.Cut(rest, "\n")
	d.Errs = append(d.Errs, e)
}

// Parse turns the text into a tree; nil if it cannot.
func (d *Decoder) Parse() (root ast.Node) {
	defer func() {
		if r := recover(); r != nil { // a defect of the YAML library
			root = nil
			d.failAt(0, 0, fmt.Sprintf("is not YAML that can be read (%v): see docs/scenarios.md", r))
		}
	}()
	file, err := parser.ParseBytes([]byte(d.Text), 0, parser.AllowDuplicateMapKey())
	var positioned yaml.Error
	switch {
	case errors.As(err, &positioned):
		line, column := 0, 0
		if t := positioned.GetToken(); t != nil && t.Position != nil {
			line, column = t.Position.Line, t.Position.Column
		}
		d.failAt(line, column, positioned.GetMessage())
		return nil
	case err != nil:
		d.failAt(0, 0, err.Error())
		return nil
	case len(file.Docs) > 1:
		d.failAt(0, 0, "has several documents: use one, remove the ---")
		return nil
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		d.failAt(0, 0, "has no content: see docs/scenarios.md")
		return nil
	}
	return file.Docs[0].Body
}

// Pairs are the pairs of a map in order; false if n is no map.
func Pairs(n ast.Node) (pairs []*ast.MappingValueNode, ok bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	return nil, false
}

// Mapping reads a map, field by field in order, and returns which there were.
func (d *Decoder) Mapping(n ast.Node, who string, known Fields) map[string]ast.Node {
	seen := make(map[string]ast.Node)
	values, ok := Pairs(n)
	if !ok {
		d.Fail(n, "%s: is no map: write name: value", who)
		return nil
	}
	for _, v := range values {
		name := v.Key.GetToken().Value
		read, ok := known[name]
		switch {
		case !ok:
			d.Fail(v.Key, "%s: there is no field %q: known are %s", who, name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[name] != nil:
			d.Fail(v.Key, "%s: %s is given twice: remove one of the two", who, name)
		default:
			seen[name] = v.Key
			if read != nil {
				read(v.Value)
			}
		}
	}
	return seen
}

// List calls f for each element.
func (d *Decoder) List(n ast.Node, who string, f func(i int, n ast.Node)) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.Fail(n, "%s: is no list: write - before each element, or [a, b]", who)
		return
	}
	for i, v := range s.Values {
		f(i, v)
	}
}

// Scalar is a single value, as it is written.
func (d *Decoder) Scalar(n ast.Node, who string) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	d.Fail(n, "%s: is no single value: anchors, lists and maps are not for here", who)
	return "", false
}

// Reader makes a field of a function that reads its text.
func (d *Decoder) Reader(who string, read func(text string) error) func(ast.Node) {
	return func(n ast.Node) {
		text, ok := d.Scalar(n, who)
		if !ok {
			return
		}
		if err := read(strings.TrimSpace(text)); err != nil {
			d.Fail(n, "%s: %v", who, err)
		}
	}
}

// Str makes a field of a text that is not empty.
func (d *Decoder) Str(who string, to *string) func(ast.Node) {
	return d.Reader(who, func(text string) error {
		if text == "" {
			return errors.New("is empty: write something")
		}
		*to = text
		return nil
	})
}

// Integer makes a field of a whole number within bounds.
func (d *Decoder) Integer(who string, to *int, from, most int) func(ast.Node) {
	return d.Reader(who, func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < from || n > most {
			return fmt.Errorf("is %.40q: write a whole number, %d to %d", text, from, most)
		}
		*to = n
		return nil
	})
}

// Boolean makes a field of true or false.
func (d *Decoder) Boolean(who string, to *bool) func(ast.Node) {
	return d.Reader(who, func(text string) error {
		if text != "true" && text != "false" {
			return fmt.Errorf("is %.40q: write true or false", text)
		}
		*to = text == "true"
		return nil
	})
}

// Duration makes a field of a duration within bounds.
func (d *Decoder) Duration(who string, to *time.Duration, from, most time.Duration) func(ast.Node) {
	return d.Reader(who, func(text string) (err error) {
		*to, err = ParseDuration(text, from, most)
		return err
	})
}

// ParseDuration reads a duration within bounds.
func ParseDuration(text string, from, most time.Duration) (time.Duration, error) {
	v, err := dynamicconfig.ParseDuration(text)
	if err != nil {
		return 0, err
	}
	if v < from || v > most {
		return 0, fmt.Errorf("%s is out of range: write %s to %s", text, from, most)
	}
	return v, nil
}

// Span makes a field of a duration, or two with .. between them.
func (d *Decoder) Span(who string, to *traffic.Span, from, most time.Duration) func(ast.Node) {
	return d.Reader(who, func(text string) (err error) {
		low, high, ok := strings.Cut(text, "..")
		if !ok {
			high = low
		}
		if to.From, err = ParseDuration(strings.TrimSpace(low), from, most); err != nil {
			return err
		}
		if to.To, err = ParseDuration(strings.TrimSpace(high), from, most); err != nil {
			return err
		}
		if to.To < to.From {
			return fmt.Errorf("%s ends before it begins: write the smaller one first", text)
		}
		return nil
	})
}

// Part makes a field of a percentage, which is in [0, 1] then.
func (d *Decoder) Part(who string, to *float64) func(ast.Node) {
	return d.Reader(who, func(text string) error {
		number, ok := strings.CutSuffix(text, "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !ok || err != nil || !(v >= 0 && v <= 100) {
			return fmt.Errorf("is %.40q: write 0%% to 100%%", text)
		}
		*to = v / 100
		return nil
	})
}

// Choice makes a field of one of some words.
func (d *Decoder) Choice(who string, words []string, take func(word string)) func(ast.Node) {
	return d.Reader(who, func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("is %.40q: write %s", text, strings.Join(words, " or "))
		}
		take(text)
		return nil
	})
}

// All is Mapping, for maps of which no field may be missing.
func (d *Decoder) All(n ast.Node, who string, known Fields) {
	seen := d.Mapping(n, who, known)
	if seen == nil {
		return
	}
	for name := range known {
		if seen[name] == nil {
			d.Fail(n, "%s: needs all of its fields: see docs/scenarios.md", who)
			return
		}
	}
}

// Number makes a field of a number within bounds.
func (d *Decoder) Number(who string, to *float64, from, most float64) func(ast.Node) {
	return d.Reader(who, func(text string) error {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= from && v <= most) {
			return fmt.Errorf("is %.40q: write a number from %g to %g", text, from, most)
		}
		*to = v
		return nil
	})
}
