// SPDX-License-Identifier: Apache-2.0

package build

import (
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

// maxName is the longest name of a value, in bytes.
const maxName = 128

// Value takes the value of a name.
func (b *Builder) Value(name string, v any, at Mark) {
	switch x := v.(type) {
	case string, bool, int64, float64, time.Duration:
	case int:
		v = int64(x)
	default:
		b.problems.Add(at, "properties: %s is a %T: use a string, bool, int, int64, float64 or time.Duration", message.Quote(name), v)
		return
	}
	if f, ok := v.(float64); ok && !quantity.Finite(f) {
		b.problems.Add(at, "properties: %s is %v: write a finite number", message.Quote(name), f)
		return
	}
	if name == "" || len(name) > maxName {
		b.problems.Add(at, "properties: the name %s has %d bytes: use 1 to %d", message.Quote(name), len(name), maxName)
		return
	}
	if b.content.Values == nil {
		b.content.Values = make(map[string]Value)
	}
	b.content.Values[name] = Value{v, at}
}
