// SPDX-License-Identifier: Apache-2.0

package fingerprint

import (
	"reflect"
	"testing"

	"github.com/headgate/headgate/dynamicconfig/rule"
)

// A new field of a rule must be in the fingerprint.
func TestEachFieldOfARuleChangesTheFingerprint(t *testing.T) {
	seen := map[string]string{string(appendRule(nil, &rule.Rule{})): "no field"}
	differs := func(name string, r rule.Rule) {
		text := string(appendRule(nil, &r))
		if other, same := seen[text]; same {
			t.Errorf("%s is as %s", name, other)
		}
		seen[text] = name
	}
	all := reflect.TypeFor[rule.Rule]()
	for i := range all.NumField() {
		var r rule.Rule
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
	differs("Parameters", rule.Rule{Parameters: map[string]string{"a": "b"}})
	differs("another name", rule.Rule{Parameters: map[string]string{"b": "b"}})
	differs("Priorities", rule.Rule{Priorities: map[int64]string{1: "b"}})
	differs("another priority", rule.Rule{Priorities: map[int64]string{2: "b"}})
	migration := reflect.TypeFor[rule.Migration]()
	differs("Migration", rule.Rule{Migration: &rule.Migration{}})
	for i := range migration.NumField() {
		var m rule.Migration
		switch v := reflect.ValueOf(&m).Elem().Field(i); v.Kind() {
		case reflect.String:
			v.SetString("x")
		default:
			v.SetUint(1)
		}
		differs(migration.Field(i).Name, rule.Rule{Migration: &m})
	}
}
