// SPDX-License-Identifier: Apache-2.0

package scenario

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

// decoder reads a scenario's YAML tree and collects what is wrong with it.
type decoder struct {
	name, text string
	errs       []error
}

// maxErrors is how many mistakes are worth reading at once.
const maxErrors = 20

// fields says what to do with each field of a map.
type fields map[string]func(n ast.Node)

// fail notes what is wrong at n, and what to do.
func (d *decoder) fail(n ast.Node, format string, args ...any) {
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

func (d *decoder) failAt(line, column int, message string) {
	if len(d.errs) >= maxErrors {
		return
	}
	e := &dynamicconfig.Error{Name: d.name, Line: line, Column: column, Message: message}
	rest := d.text
	for n := 1; n < line; n++ {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	e.Source, _, _ = strings.Cut(rest, "\n")
	d.errs = append(d.errs, e)
}

// parse turns the text into a tree; nil if it cannot.
func (d *decoder) parse() (root ast.Node) {
	defer func() {
		if r := recover(); r != nil { // a defect of the YAML library
			root = nil
			d.failAt(0, 0, fmt.Sprintf("is not YAML that can be read (%v): see docs/scenarios.md", r))
		}
	}()
	file, err := parser.ParseBytes([]byte(d.text), 0, parser.AllowDuplicateMapKey())
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

// mapping reads a map, field by field in order, and returns which there were.
func (d *decoder) mapping(n ast.Node, who string, known fields) map[string]ast.Node {
	seen := make(map[string]ast.Node)
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.fail(n, "%s: is no map: write name: value", who)
		return nil
	}
	for _, v := range values {
		name := v.Key.GetToken().Value
		read, ok := known[name]
		switch {
		case !ok:
			d.fail(v.Key, "%s: there is no field %q: known are %s", who, name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[name] != nil:
			d.fail(v.Key, "%s: %s is given twice: remove one of the two", who, name)
		default:
			seen[name] = v.Key
			if read != nil {
				read(v.Value)
			}
		}
	}
	return seen
}

// list calls f for each element.
func (d *decoder) list(n ast.Node, who string, f func(i int, n ast.Node)) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(n, "%s: is no list: write - before each element, or [a, b]", who)
		return
	}
	for i, v := range s.Values {
		f(i, v)
	}
}

// text is a scalar, as it is written.
func (d *decoder) scalar(n ast.Node, who string) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	d.fail(n, "%s: is no single value: anchors, lists and maps are not for here", who)
	return "", false
}

// reader makes a field of a function that reads its text.
func (d *decoder) reader(who string, read func(text string) error) func(ast.Node) {
	return func(n ast.Node) {
		text, ok := d.scalar(n, who)
		if !ok {
			return
		}
		if err := read(strings.TrimSpace(text)); err != nil {
			d.fail(n, "%s: %v", who, err)
		}
	}
}

func (d *decoder) str(who string, to *string) func(ast.Node) {
	return d.reader(who, func(text string) error {
		if text == "" {
			return errors.New("is empty: write something")
		}
		*to = text
		return nil
	})
}

func (d *decoder) integer(who string, to *int, from, most int) func(ast.Node) {
	return d.reader(who, func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < from || n > most {
			return fmt.Errorf("is %.40q: write a whole number, %d to %d", text, from, most)
		}
		*to = n
		return nil
	})
}

func (d *decoder) boolean(who string, to *bool) func(ast.Node) {
	return d.reader(who, func(text string) error {
		if text != "true" && text != "false" {
			return fmt.Errorf("is %.40q: write true or false", text)
		}
		*to = text == "true"
		return nil
	})
}

func (d *decoder) duration(who string, to *time.Duration, from, most time.Duration) func(ast.Node) {
	return d.reader(who, func(text string) (err error) {
		*to, err = parseDuration(text, from, most)
		return err
	})
}

func parseDuration(text string, from, most time.Duration) (time.Duration, error) {
	v, err := dynamicconfig.ParseDuration(text)
	if err != nil {
		return 0, err
	}
	if v < from || v > most {
		return 0, fmt.Errorf("%s is out of range: write %s to %s", text, from, most)
	}
	return v, nil
}

// span is a duration, or two with .. between them.
func (d *decoder) span(who string, to *traffic.Span, from, most time.Duration) func(ast.Node) {
	return d.reader(who, func(text string) (err error) {
		low, high, ok := strings.Cut(text, "..")
		if !ok {
			high = low
		}
		if to.From, err = parseDuration(strings.TrimSpace(low), from, most); err != nil {
			return err
		}
		if to.To, err = parseDuration(strings.TrimSpace(high), from, most); err != nil {
			return err
		}
		if to.To < to.From {
			return fmt.Errorf("%s ends before it begins: write the smaller one first", text)
		}
		return nil
	})
}

func (d *decoder) part(who string, to *float64) func(ast.Node) {
	return d.reader(who, func(text string) error {
		number, ok := strings.CutSuffix(text, "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !ok || err != nil || !(v >= 0 && v <= 100) {
			return fmt.Errorf("is %.40q: write 0%% to 100%%", text)
		}
		*to = v / 100
		return nil
	})
}

// perSecond is a rate as limits write it, such as 10/s or 5/m.
func (d *decoder) perSecond(who string, to *float64) func(ast.Node) {
	return d.reader(who, func(text string) (err error) {
		*to, err = parseRate(text)
		return err
	})
}

func parseRate(text string) (float64, error) {
	v, err := dynamicconfig.ParseLimit(text)
	if err != nil {
		return 0, err
	}
	if !(v >= 0 && v <= MaxRate) {
		return 0, fmt.Errorf("%s is out of range: write 0/s to %g/s", text, float64(MaxRate))
	}
	return float64(v), nil
}

func (d *decoder) hosts(who string, to *Selection, s *Scenario) func(ast.Node) {
	return func(n ast.Node) {
		var words []string
		if list, ok := n.(*ast.SequenceNode); ok {
			for _, v := range list.Values {
				if word, ok := d.scalar(v, who); ok {
					words = append(words, word)
				}
			}
		} else if word, ok := d.scalar(n, who); ok {
			words = append(words, word)
		}
		if len(words) == 0 {
			return
		}
		var err error
		if *to, err = selection(strings.Join(words, ", "), s); err != nil {
			d.fail(n, "%s: %v", who, err)
		}
	}
}
