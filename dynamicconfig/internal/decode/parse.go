// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"bytes"
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// Bounds of config files, in bytes. They bound the memory that a file takes while it is read.
const (
	// MaxSize is the largest config file in any form.
	MaxSize = 1 << 20
	// MaxLargeSize is the largest file whose rules are written plainly, as docs/config.md
	// describes: more than 200,000 rules.
	MaxLargeSize = 16 << 20
)

// Parse reads a config file; docs/config.md describes its fields. name is
// for messages, usually the file's path. The error joins an *Error, with
// line, column and a caret, for each mistake that could be told apart, at
// most 20. Unknown fields and fields given twice are mistakes, and so is a
// file without content: a file that an editor just emptied must not lift
// all limits. Parse keeps no part of data.
func Parse(name string, data []byte) (*Snapshot, error) {
	s, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ParseChecked is Parse with a check of the caller's, such as of the algorithms that
// there are. check is called for a file with mistakes too, so that one error has
// all mistakes, in the order of the text: the Snapshot then lacks what has a mistake.
func ParseChecked(name string, data []byte, check func(*Snapshot) error) (*Snapshot, error) {
	s, err := parse(name, data)
	if s != nil {
		err = inOrder(err, check(s))
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// parse is Parse that also returns, beside an error, the Snapshot of what has no mistake;
// nil if the text could not be read.
func parse(name string, data []byte) (*Snapshot, error) {
	if len(data) > MaxLargeSize {
		return nil, &Error{Name: name, Message: fmt.Sprintf("has %d bytes: use at most %d", len(data), MaxLargeSize)}
	}
	if len(data) >= largeFile {
		s, err := parseLarge(name, data)
		if err == nil || len(data) > MaxSize {
			return s, err
		}
	}
	d := newDecoder(name, data)
	root := d.Parse()
	if root == nil {
		return nil, d.err()
	}
	d.file(root)
	return d.draft()
}

// largeFile is the size in bytes from which parseLarge saves time.
const largeFile = 1 << 16

// parseLarge reads a file of many rules fast. Its error has the mistakes, or the first place
// whose form is not plain.
func parseLarge(name string, data []byte) (*Snapshot, error) {
	d := newDecoder(name, data)
	root, rules, ok := d.Large("limits", MaxSize)
	if !ok {
		return nil, &Error{Name: name, Message: fmt.Sprintf("has %d bytes: use at most %d, or write limits: in a line of its own, and the rules below it, without tabs and anchors", len(data), MaxSize)}
	}
	fields, _ := d.Mapping(root, "the file", knownTop)
	d.defaultsOf(strictyaml.Find(fields, "defaults"))
	most := len(data) / 20 // bytes of the shortest rule
	d.grow(min(bytes.Count(data, []byte("key:")), most))
	i := 0
	rest := rules(func(item ast.Node) {
		d.limit(i, item)
		i++
	})
	if rest > 0 {
		d.add(mark{Line: rest, Column: 1}, "is not understood in a file of more than %d bytes: write the rule as - {key: \"a\", limit: 1/s}, or each of its fields in a line of its own", MaxSize)
	}
	d.unmatchedOf(strictyaml.Find(fields, "unmatched"))
	d.valuesOf(strictyaml.Find(fields, "properties"))
	return d.draft()
}

func newDecoder(name string, data []byte) *decoder {
	f := strictyaml.NewFile(data, strictyaml.Dialect{
		Share:     "use defaults: for what rules share",
		Reference: "docs/config.md",
		Empty:     "write limits: [] to have no limits",
	})
	return &decoder{builder: newBuilder(origin{name: name, text: f.Text}, &f.Problems), File: f}
}

// ParseLimit reads a limit as the config file writes it: events per second,
// minute, hour or day, `1000/s`, `5/m`, `1.5e3 / h`, `10000/d`. The result is events/s and
// may be anything that float64 holds: whether a limit is possible is for
// Config to say.
func ParseLimit(text string) (rate.Limit, error) { return quantity.ParseLimit(text) }

// ParseDuration reads a duration as time.ParseDuration does, and days too:
// `90s`, `1h30m`, `2d`, `1d12h`.
func ParseDuration(text string) (time.Duration, error) { return quantity.ParseDuration(text) }
