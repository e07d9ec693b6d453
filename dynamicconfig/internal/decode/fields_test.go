// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Each field of the reference is among those that are written.
func TestFieldsAreAll(t *testing.T) {
	text, err := os.ReadFile("../../testdata/every-field.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := Parse(text, nil).Content
	var names []string
	for _, r := range s.Rules {
		for name := range r.Fields() {
			names = append(names, name)
		}
	}
	for name := range s.Properties.Fields() {
		names = append(names, name)
	}
	slices.Sort(names)
	want := slices.Sorted(slices.Values(knownDefaults))
	if names = slices.Compact(names); !slices.Equal(names, want) {
		t.Errorf("fields are %v, want %v", names, want)
	}
	for name := range s.Properties.Fields() { // a loop may end early
		if name != "update_interval" {
			t.Errorf("first is %s", name)
		}
		break
	}
}

// A rule made in code states each field that a file can: a field that is not stated is
// neither checked, nor wins over the defaults.
func TestARuleMadeInCodeStatesEachField(t *testing.T) {
	text, err := os.ReadFile("../../testdata/every-field.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := Parse(text, nil).Content.Rules
	for _, name := range knownRule {
		if !slices.ContainsFunc(rules, func(r *rule.Rule) bool { return build.Stated("", *r).Has(name) }) {
			t.Errorf("build.Stated does not know %s", name)
		}
	}
}

// The user's reference must be complete.
func TestTheReferenceDescribesEachField(t *testing.T) {
	data, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(knownDefaults, knownTop) {
		if !strings.Contains(string(data), "`"+name+"`") {
			t.Errorf("docs/config.md does not describe `%s`", name)
		}
	}
}
