// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"maps"
	"slices"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
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
