// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
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

// A change of one rule counts only the quotas that the rule touches. The sums are the same as if all rules were counted.
func TestQuotasAfterAChangeAreThoseOfAllRules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	algorithms := []string{"auto", "exact", "elastic", "even", "static"}
	var filler strings.Builder // so that the text is large, and its rules are those of the text before
	for i := range 1500 {
		fmt.Fprintf(&filler, "  - {key: \"filler-%04d:*\", limit: 1000/s, algorithm: exact}\n", i)
	}
	shared := 0
	var before *Settings
	for range 60 {
		var text strings.Builder
		text.WriteString("limits:\n")
		filler := filler.String()
		if random.IntN(3) == 0 {
			filler = filler[:len(filler)/2] // at a line, as all have the same length
		}
		for i := range 4 {
			if random.IntN(3) > 0 {
				fmt.Fprintf(&text, "  - {key: k%d, limit: %d/s, algorithm: %s}\n", i, 1+random.IntN(2), algorithms[random.IntN(5)])
			}
		}
		text.WriteString(filler)
		if random.IntN(3) == 0 {
			fmt.Fprintf(&text, "  - key: moves\n    limit: 1/s\n    migrate: {from: exact, to: %s, mode: old-shadow-new}\n", algorithms[3*random.IntN(2)])
		}
		if random.IntN(4) == 0 {
			text.WriteString("  - {key: \"*\", limit: 1/s}\n")
		}
		if random.IntN(4) == 0 {
			text.WriteString("unmatched: {limit: 1/s}\n")
		}
		s := settings(t, before, text.String())
		alone := settings(t, nil, text.String())
		for at, quota := range s.quotas {
			if alone.quotas[at] == nil {
				t.Fatalf("%v has a quota, and no rule in\n%s", at, text.String())
			}
			if before != nil && before.quotas[at] != nil {
				if shared++; before.quotas[at] != quota {
					t.Fatalf("%v has another quota than before", at)
				}
			}
		}
		if len(s.quotas) != len(alone.quotas) {
			t.Fatalf("%d quotas, want %d", len(s.quotas), len(alone.quotas))
		}
		before = s
	}
	if shared == 0 {
		t.Error("nothing was there before")
	}
}
