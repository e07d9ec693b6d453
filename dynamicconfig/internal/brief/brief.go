// SPDX-License-Identifier: Apache-2.0

// Package brief says values and lists in a few words, for log lines and terminals. It does not
// know what they are values of.
package brief

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

// Bounds of what is said of a value, in bytes.
const (
	maxValue = 40
	maxMap   = 100 // a whole migration
)

// Without is the part of m that is not in other.
func Without(m, other map[string]string) map[string]string {
	part := maps.Clone(m)
	maps.DeleteFunc(part, func(name, value string) bool {
		same, has := other[name]
		return has && same == value
	})
	return part
}

// Value is a field's value in a few words.
func Value(v any) string {
	text := fmt.Sprint(v)
	switch v := v.(type) {
	case nil:
		text = "unset"
	case float64:
		text = quantity.Number(v)
	case map[string]string:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+": "+v[name])
		}
		return Cut("{"+strings.Join(parts, ", ")+"}", maxMap)
	}
	return Cut(text, maxValue)
}

// Cut shortens text to at most n bytes, and says so.
func Cut(text string, n int) string {
	const mark = "…"
	if len(text) <= n {
		return text
	}
	for n -= len(mark); n > 0 && !utf8.RuneStart(text[n]); n-- {
	}
	return text[:n] + mark
}

// List joins at most n of all, and says how many more there are.
func List[T fmt.Stringer](all []T, n int, separator string) string {
	var parts []string
	for _, c := range all[:min(n, len(all))] {
		parts = append(parts, c.String())
	}
	text := strings.Join(parts, separator)
	if more := len(all) - n; more > 0 {
		text += fmt.Sprintf("%sand %d more", separator, more)
	}
	return text
}
