// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"reflect"
	"testing"
)

// A new field of a rule must be in the fingerprint.
func TestEachFieldOfARuleChangesTheFingerprint(t *testing.T) {
	seen := map[string]string{string(appendRule(nil, &Rule{})): "no field"}
	differs := func(name string, r Rule) {
		text := string(appendRule(nil, &r))
		if other, same := seen[text]; same {
			t.Errorf("%s is as %s", name, other)
		}
		seen[text] = name
	}
	all := reflect.TypeFor[Rule]()
	for i := range all.NumField() {
		var r Rule
		switch v := reflect.ValueOf(&r).Elem().Field(i); v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Float64:
			v.SetFloat(0.1)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(7)
		case reflect.Uint8:
			v.SetUint(1)
		}
		switch name := all.Field(i).Name; name {
		case "Parameters", "Migration", "Priorities": // below
		case "Override": // comes and goes with the time
		default:
			differs(name, r)
		}
	}
	differs("Parameters", Rule{Parameters: map[string]string{"a": "b"}})
	differs("another name", Rule{Parameters: map[string]string{"b": "b"}})
	differs("Priorities", Rule{Priorities: map[int64]string{1: "b"}})
	differs("another priority", Rule{Priorities: map[int64]string{2: "b"}})
	migration := reflect.TypeFor[Migration]()
	differs("Migration", Rule{Migration: &Migration{}})
	for i := range migration.NumField() {
		var m Migration
		switch v := reflect.ValueOf(&m).Elem().Field(i); v.Kind() {
		case reflect.String:
			v.SetString("x")
		default:
			v.SetUint(1)
		}
		differs(migration.Field(i).Name, Rule{Migration: &m})
	}
}

// Hosts compare fingerprints while they are upgraded, so that one version of headgate must not
// change them.
func TestTheFingerprintOfAConfigurationStays(t *testing.T) {
	for text, want := range map[string]string{
		"limits: []":  "fcba8c8e8fea",
		everyField(t): "b516a62a1616",
	} {
		if got := mustParse(t, text).Version(); got != want {
			t.Errorf("the version is %s, want %s, of\n%s", got, want, text)
		}
	}
}
