// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

// Values are named settings of services that ride along with the rules: the
// `properties:` of a config file. Read them through Duration, Int, Float,
// Bool and String, which follow changes. The zero Values is empty.
type Values struct {
	byName map[string]value
}

// value is one scalar: a string, bool, int64, float64 or time.Duration.
type value struct {
	v  any
	at mark
}

// Names are the names of all values, sorted.
func (v Values) Names() []string { return slices.Sorted(maps.Keys(v.byName)) }

// Lookup is the value of a name: a string, bool, int64, float64 or (only
// when made in code) time.Duration; and whether there is one.
func (v Values) Lookup(name string) (any, bool) {
	got, ok := v.byName[name]
	return got.v, ok
}

// maxName is the longest name of a value, in bytes.
const maxName = 128

func (b *builder) value(name string, v any, at mark) {
	switch x := v.(type) {
	case string, bool, int64, float64, time.Duration:
	case int:
		v = int64(x)
	default:
		b.add(at, "properties: %s is a %T: use a string, bool, int, int64, float64 or time.Duration", message.Quote(name), v)
		return
	}
	if f, ok := v.(float64); ok && !quantity.Finite(f) {
		b.add(at, "properties: %s is %v: write a finite number", message.Quote(name), f)
		return
	}
	if name == "" || len(name) > maxName {
		b.add(at, "properties: the name %s has %d bytes: use 1 to %d", message.Quote(name), len(name), maxName)
		return
	}
	if b.snapshot.values.byName == nil {
		b.snapshot.values.byName = make(map[string]value)
	}
	b.snapshot.values.byName[name] = value{v, at}
}
