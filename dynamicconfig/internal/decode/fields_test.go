// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Each field of the reference is among those that are written.
func TestFieldsAreAll(t *testing.T) {
	text, err := os.ReadFile("../../testdata/every-field.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := Parse(text).Content
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
