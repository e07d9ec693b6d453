// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig/internal/render"
)

const everyField = `
defaults: {update_interval: 2s, new_data_weight: 1}
limits:
  - key: "a:*\n\"\\*\u00e9"
    limit: 5/m
    burst: 7.5
    max_wait: 0s
    max_debt: 1m
    max_cost: 500
    enforce: 0%
    fallback: safe
    safe_capacity: 1/h
    idle_after: 30d
    shared: true
    private: true
    description: |
      two # lines
      : of text
  - key: b
    limit: 10 in-flight
    algorithm: static
    parameters: {a b: "yes", n: 5}
    lease: 1m1.5s
    refresh: 16s
    learning: 0s
    recalculate: 0s
    overcommit: 7%
    priority: -3
    priorities: {-1: none, 10: fair-share}
    one_band: true
    parent: true
    fallback: safe
    safe_capacity: 3 in-flight
  - {key: d, limit: 1/s, algorithm: exact, max_wait: 1.5s, max_debt: 0s, enforce: 12.5%, ask_timeout: 1.5s}
  - {key: c, limit: 0/s, migrate: {from: even, to: static, mode: new-shadow-old}}
unmatched: {limit: 1/s}
properties: {a: 1, b: 1.0, c: "1", d: true, e: "true", "f g": 1e21, h: -5, i: "*"}
`

func TestYAMLIsTheSameConfiguration(t *testing.T) {
	for _, text := range []string{everyField, "limits: []", "limits: []\nunmatched: deny"} {
		s := mustParse(t, text)
		again, err := Parse("again", s.YAML())
		if err != nil || again.Version() != s.Version() {
			t.Errorf("%v in\n%s", err, s.YAML())
		}
		for _, r := range s.Rules() {
			list := "limits:\n  -\n" + string(r.YAML("    "))
			if got := mustParse(t, "defaults: {update_interval: 2s}\n"+list).Rules()[0]; got.Key != r.Key || got.Lease != r.Lease {
				t.Errorf("%+v became %+v", r, got)
			}
		}
	}
}

// Each field of the reference is among those that are written.
func TestFieldsAreAll(t *testing.T) {
	s := mustParse(t, everyField)
	var names []string
	for _, r := range s.Rules() {
		for name := range r.Fields() {
			names = append(names, name)
		}
	}
	for name := range s.Properties().Fields() {
		names = append(names, name)
	}
	slices.Sort(names)
	want := slices.Sorted(slices.Values(knownDefaults))
	if names = slices.Compact(names); !slices.Equal(names, want) {
		t.Errorf("fields are %v, want %v", names, want)
	}
	for name := range s.Properties().Fields() { // a loop may end early
		if name != "update_interval" {
			t.Errorf("first is %s", name)
		}
		break
	}
}

func TestNumbersAreWrittenExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{
			Key: rapid.StringN(1, 20, 80).Draw(t, "key"), Limit: rate.Limit(rapid.Float64Range(1e-6, 1e12).Draw(t, "limit")), Algorithm: "static",
			Lease: time.Duration(rapid.Int64Range(int64(4*time.Second), int64(24*time.Hour)).Draw(t, "lease")), Overcommit: math.Round(rapid.Float64Range(0, 100).Draw(t, "percent")*100) / 100 / 100,
			Description: rapid.String().Draw(t, "description"),
		}
		s, err := Config{Rules: []Rule{r}}.Snapshot()
		if err != nil {
			t.Skip("the key is no glob")
		}
		again, err := Parse("again", s.YAML())
		if err != nil || again.Version() != s.Version() {
			t.Fatalf("%v in\n%s", err, s.YAML())
		}
	})
}

// Any text that a file can hold reads back as itself.
func TestScalarReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("\x00\x07\n\r\t\"\\'#:{}[]*&!% \u0085\u00a0\u2028\ufeff\U0001F600é~`|>")))).Draw(t, "text")
		s, err := Parse("f", []byte("properties: {a: "+render.Scalar(text)+"}"))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got, _ := s.Values().Lookup("a"); got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
