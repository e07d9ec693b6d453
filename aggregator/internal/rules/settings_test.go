// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

func settings(t *testing.T, before *Settings, text string) *Settings {
	t.Helper()
	snapshot, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := New(algorithm.Builtin(), snapshot, nil, before)
	return s
}

func TestARuleSaysUnderWhichNameAKeyIsTakenFrom(t *testing.T) {
	s := settings(t, nil, `
limits:
  - {key: "exact", limit: 1/s, algorithm: exact}
  - {key: "elastic", limit: 1/s, algorithm: elastic}
  - {key: "average", limit: 1/s, algorithm: request-weighted}
  - {key: "slots", limit: 1 in-flight, algorithm: fair-share}
  - {key: "old", limit: 1/s, migrate: {from: exact, to: auto, mode: old}}
  - {key: "new", limit: 1/s, migrate: {from: exact, to: auto, mode: new}}
  - {key: "off", limit: 1/s, migrate: {from: exact, to: auto, mode: disabled}}
`)
	for _, tt := range []struct {
		key, asked string
		want       string // empty: from nothing
		shadow     bool   // another algorithm answers for the rule
	}{
		{"exact", "exact", "exact", false},
		{"exact", "auto", "exact", true}, // the host has not heard of the rule
		{"elastic", "auto", "elastic", true},
		{"average", "auto", "", true},
		{"slots", "exact", "", true},
		{"old", "exact", "exact", false},
		{"old", "auto", "exact", true}, // the host has not heard of the rule
		{"old", "measured auto", "measured auto", true},
		{"old", "measured exact", "", true},
		{"new", "exact", "auto", true},
		{"new", "measured exact", "measured exact", true},
		{"exact", "measured auto", "", true},
		{"new", "auto", "auto", false},
		{"no rule", "auto", "", false},
	} {
		rule, name, ok := s.Taken(tt.key, tt.asked)
		if ok != (tt.want != "") || ok && name != tt.want || ok && rule.Key != tt.key {
			t.Errorf("%s, asked as %s: %q, %v; want %q", tt.key, tt.asked, name, ok, tt.want)
		}
		if rule, _ := s.Snapshot.Match(tt.key); s.Shadows(rule, tt.asked) != tt.shadow {
			t.Errorf("%s, asked as %s: shadow is not %v", tt.key, tt.asked, tt.shadow)
		}
	}
	if rule, _ := s.Snapshot.Match("off"); !Disabled(rule) || Disabled(nil) {
		t.Error("a rule that limits nothing is not bypassed, or no rule is")
	}
}

func TestAQuotaOutlivesAReload(t *testing.T) {
	const text = `limits: [{key: "k*", limit: 1/s, algorithm: auto, max_keys: 2}, {key: other, limit: 1/s, algorithm: even}]`
	first := settings(t, nil, text)
	rule, _ := first.Snapshot.Match("k1")
	other, _ := first.Snapshot.Match("other")
	quota := first.Quota(rule, "auto")
	for i, want := range []bool{true, true, false} {
		if quota.Enter(2) != want {
			t.Errorf("key %d enters: not %v", i, want)
		}
	}
	next := settings(t, first, text)
	if next.Number != first.Number+1 || next.Quota(rule, "auto") != quota || quota.Keys() != 2 {
		t.Errorf("after a reload, number %d and %d keys", next.Number, quota.Keys())
	}
	var none *Quota // of a rule that has no such keys
	if none.Add(1); first.Quota(other, "even") != none || !none.Enter(0) {
		t.Error("a rule without takes has a quota")
	}
}
