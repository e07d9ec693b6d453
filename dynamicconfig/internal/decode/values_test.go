// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig/internal/render"
)

// This package reads each value that package render writes as the same value of the same type.
func TestValuesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.OneOf(
			rapid.Map(rapid.Bool(), func(v bool) any { return v }),
			rapid.Map(rapid.Int64(), func(v int64) any { return v }),
			rapid.Map(rapid.Float64(), func(v float64) any { return v }),
			rapid.Map(rapid.String(), func(v string) any { return v }),
			rapid.Map(rapid.StringOf(rapid.RuneFrom([]rune("\x00\x07\n\r\t\"\\'#:{}[]*&!% \u0085\u00a0\u2028\ufeff\U0001F600é~`|>"))), func(v string) any { return v }),
		).Draw(t, "value")
		text := "properties: {v: " + render.Value(want) + "}\n"
		r := Parse([]byte(text), nil)
		if r.Problems.Any() {
			t.Fatalf("there are mistakes in %s", text)
		}
		if got := r.Content.Values["v"].V; got != want {
			t.Fatalf("%s reads back as %#v, want %#v", text, got, want)
		}
	})
}
