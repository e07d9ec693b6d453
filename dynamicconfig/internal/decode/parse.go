// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
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

// Result is what came of reading one text.
type Result struct {
	Text     string
	Problems *strictyaml.Problems
	Content  *build.Content // it lacks what has a problem; nil if the text could not be read at all
}

// unread is the Result of what could not be read.
func unread(format string, args ...any) Result {
	p := new(strictyaml.Problems)
	p.Add(build.Mark{}, format, args...)
	return Result{Problems: p}
}

// Parse reads a config file. Where that is large, and before, which may be nil, has the same rules, it takes these from
// there. The result does not depend on before.
func Parse(data []byte, before *build.Content) Result {
	if len(data) > MaxLargeSize {
		return unread("has %d bytes: use at most %d", len(data), MaxLargeSize)
	}
	if len(data) >= largeFile {
		r := parseLarge(data, before)
		if !r.Problems.Any() || len(data) > MaxSize {
			return r
		}
	}
	return parseWhole(data)
}

// parseWhole reads a config file by the YAML library alone.
func parseWhole(data []byte) Result {
	d := newDecoder(data)
	root := d.Parse()
	if root == nil {
		return Result{Text: d.Text, Problems: &d.Problems}
	}
	d.file(root)
	return d.result()
}

// result is what the decoder has read.
func (d *decoder) result() Result {
	return Result{Text: d.Text, Problems: &d.Problems, Content: d.Finish()}
}

// largeFile is the size in bytes from which parseLarge saves time.
const largeFile = 1 << 16

// parseLarge reads a file of many rules fast. Its problems are the mistakes, or the first place
// whose form is not plain. What is in before too, which may be nil, it does not read again.
func parseLarge(data []byte, before *build.Content) Result {
	d := newDecoder(data)
	list := newRules(d, before)
	if list == nil {
		return unread("has %d bytes: use at most %d, or write limits: in a line of its own, and the rules below it, without tabs and anchors", len(data), MaxSize)
	}
	fields, _ := d.Mapping(list.Root, "the file", knownTop)
	d.fields(func(name string) ast.Node { return strictyaml.Find(fields, name) }, func(ast.Node) { list.read() })
	r := d.result()
	if list.reused && r.Problems.Any() {
		return parseLarge(data, nil)
	}
	return r
}

func newDecoder(data []byte) *decoder {
	f := strictyaml.NewFile(data, strictyaml.Dialect{
		Share:     "use defaults: for what rules share",
		Reference: "docs/config.md",
		Empty:     "write limits: [] to have no limits",
		Elsewhere: elsewhere,
		Other:     other,
	})
	return &decoder{Builder: build.New(&f.Problems), File: f}
}
