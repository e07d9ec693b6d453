// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"

	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
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
	d := newDecoder(name, data)
	if root := d.Parse(); root != nil {
		d.file(root)
	}
	return d.finish()
}

func newDecoder(name string, data []byte) *decoder {
	f := strictyaml.NewFile(data, strictyaml.Dialect{
		Share:     "use defaults: for what rules share",
		Reference: "docs/config.md",
		Empty:     "write limits: [] to have no limits",
	})
	return &decoder{builder: newBuilder(origin{name: name, text: f.Text}, &f.Problems), File: f}
}
