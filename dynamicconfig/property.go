// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

// Values are named settings of services that ride along with the rules: the
// `properties:` of a config file. Read them through Duration, Int, Float,
// Bool and String, which follow changes. The zero Values is empty.
type Values struct {
	byName map[string]build.Value
}

// Names are the names of all values, sorted.
func (v Values) Names() []string { return slices.Sorted(maps.Keys(v.byName)) }

// Lookup is the value of a name: a string, bool, int64, float64 or (only
// when made in code) time.Duration; and whether there is one.
func (v Values) Lookup(name string) (any, bool) {
	got, ok := v.byName[name]
	return got.V, ok
}

// Property is a named value of a service, of one type, that follows a Live.
// Make one where the service starts and keep it: it stays registered for as
// long as its Live. Safe for concurrent use.
type Property[T any] struct {
	name      string
	byDefault T
	convert   func(v any) (T, error)

	// value is stored whole by the Live, under its lock, and loaded by Get.
	value atomic.Pointer[T]
}

// Name is the name under `properties:`.
func (p *Property[T]) Name() string { return p.name }

// Get is the present value: one atomic load.
func (p *Property[T]) Get() T { return *p.value.Load() }

// Duration follows a value like 500ms or 2d, or, made in code, a
// time.Duration. It is byDefault if there is no such name. It is also byDefault if the value has
// another type when Duration is called, and live.LastError says so then. From
// then on, a snapshot in which it has another type is refused.
func Duration(live *Live, name string, byDefault time.Duration) *Property[time.Duration] {
	return newProperty(live, name, byDefault, func(v any) (time.Duration, error) {
		switch v := v.(type) {
		case time.Duration:
			return v, nil
		case string:
			return quantity.ParseDuration(v)
		}
		return 0, wrongType(v, "a duration, as in 500ms, 3s or 2d")
	})
}

// Int follows a whole number. See Duration for what else holds.
func Int(live *Live, name string, byDefault int64) *Property[int64] {
	return newProperty(live, name, byDefault, func(v any) (int64, error) {
		switch v := v.(type) {
		case int64:
			return v, nil
		case float64: // 1e6 is whole
			if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
				return int64(v), nil
			}
		}
		return 0, wrongType(v, "a whole number")
	})
}

// Float follows a finite number. See Duration for what else holds.
func Float(live *Live, name string, byDefault float64) *Property[float64] {
	return newProperty(live, name, byDefault, func(v any) (float64, error) {
		switch v := v.(type) {
		case int64:
			return float64(v), nil
		case float64:
			return v, nil
		}
		return 0, wrongType(v, "a number")
	})
}

// Bool follows true or false. See Duration for what else holds.
func Bool(live *Live, name string, byDefault bool) *Property[bool] {
	return newProperty(live, name, byDefault, func(v any) (bool, error) {
		if v, ok := v.(bool); ok {
			return v, nil
		}
		return false, wrongType(v, "true or false")
	})
}

// String follows a text. See Duration for what else holds.
func String(live *Live, name string, byDefault string) *Property[string] {
	return newProperty(live, name, byDefault, func(v any) (string, error) {
		if v, ok := v.(string); ok {
			return v, nil
		}
		return "", wrongType(v, "text: put it in quotes")
	})
}

func wrongType(v any, want string) error {
	if s, ok := v.(string); ok {
		return fmt.Errorf("the text %s is not %s", message.Quote(s), want)
	}
	return fmt.Errorf("%v is not %s", v, want)
}

func newProperty[T any](live *Live, name string, byDefault T, convert func(any) (T, error)) *Property[T] {
	p := &Property[T]{name: name, byDefault: byDefault, convert: convert}
	p.value.Store(&byDefault)
	live.register(p)
	return p
}

func (p *Property[T]) read(s *Snapshot) (commit func(), err error) {
	v := p.byDefault
	if got, ok := s.content.Values[p.name]; ok {
		if v, err = p.convert(got.V); err != nil {
			return nil, s.origin.problem(got.At, "properties: %s: %v", p.name, err)
		}
	}
	return func() { p.value.Store(&v) }, nil
}
