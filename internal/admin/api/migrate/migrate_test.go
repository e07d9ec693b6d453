// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

func TestAModeThatComparesNothingIsJudgedByItself(t *testing.T) {
	for mode, want := range map[dynamicconfig.Mode]string{dynamicconfig.ModeDisabled: Wait, dynamicconfig.ModeOld: Advance, dynamicconfig.ModeNew: Advance} {
		m := Migration{From: "even", To: "elastic"}
		if m.judge(&dynamicconfig.Rule{Migration: &dynamicconfig.Migration{Mode: mode}}, 0, 0); m.Verdict != want || m.Because == "" {
			t.Errorf("%v: %+v", mode, m)
		}
	}
}

// Who may see a rule sees those of its keys that the right is for, and counts of all.
func TestAMigrationShowsOnlyKeysThatMayBeSeen(t *testing.T) {
	rule := &dynamicconfig.Rule{Key: "a:*", Migration: &dynamicconfig.Migration{From: "even", To: "exact", Mode: dynamicconfig.ModeOldShadowNew}}
	differ := stage.Divergence{OnlyOld: 1}
	m := migration(rule, []Compared{{Divergence: differ, Key: "a:b", Rule: "a:*"}, {Divergence: differ, Key: "a:secret", Rule: "a:*"}}, func(key string) bool { return len(key) == 3 })
	if len(m.Keys) != 1 || m.Keys[0].Key != "a:b" || m.OnlyOld != 2 {
		t.Errorf("%+v", m)
	}
}

// A list of keys that is cut off says so.
func TestAMigrationSaysHowManyKeysAreNotListed(t *testing.T) {
	rule := &dynamicconfig.Rule{Key: "a", Migration: &dynamicconfig.Migration{From: "even", To: "exact", Mode: dynamicconfig.ModeOldShadowNew}}
	all := slices.Repeat([]Compared{{Divergence: stage.Divergence{OnlyOld: 1}, Key: "a", Rule: "a"}}, mostDiffering+2)
	for n, more := range map[int]int{0: 0, mostDiffering: 0, mostDiffering + 2: 2} {
		if m := migration(rule, all[:n], func(string) bool { return true }); len(m.Keys) != n-more || m.More != more {
			t.Errorf("of %d: %d, and %d more", n, len(m.Keys), m.More)
		}
	}
}

func TestAMigrationOfSlotsIsComparedInSlots(t *testing.T) {
	m := Migration{Both: 10}
	if m.judge(&dynamicconfig.Rule{InFlight: true, Migration: &dynamicconfig.Migration{Mode: dynamicconfig.ModeOldShadowNew}}, 0, 0); !strings.HasPrefix(m.Because, "only 10 slots were") {
		t.Error(m.Because)
	}
}

func TestAVerdictSaysWhatAMigrationWouldChange(t *testing.T) {
	for name, c := range map[string]struct {
		to                           string
		both, onlyOld, onlyNew, none int64
		moved                        int64
		want                         string
	}{
		"too few to say":                    {"auto", 900, 0, 0, 0, 0, Wait},
		"alike":                             {"auto", 10000, 20, 20, 500, 0, Advance},
		"as much of each key, other events": {"auto", 5000, 900, 900, 5000, 0, Wait},
		"even refuses on busy hosts what is left":    {"auto", 5000, 0, 3000, 0, 3000, Advance},
		"the same, a little":                         {"auto", 5000, 0, 150, 0, 150, Advance},
		"other events, and more of the key":          {"auto", 5000, 300, 3000, 0, 2700, Wait},
		"it is over its limit, and gets more":        {"auto", 360, 278, 407, 2155, 129, Wait},
		"it is over its limit, and gets less":        {"auto", 360, 407, 278, 2155, 129, GoBack},
		"it refuses":                                 {"auto", 5000, 3000, 0, 0, 3000, GoBack},
		"nothing holds the limit":                    {"none", 5000, 0, 3000, 0, 3000, GoBack},
		"an algorithm of which nothing is known":     {"ours", 5000, 0, 3000, 0, 3000, GoBack},
		"it refuses a little more":                   {"auto", 5000, 150, 0, 0, 150, Wait},
		"a weigher on an account that holds a limit": {"pool/biggest", 5000, 0, 3000, 0, 3000, Advance},
	} {
		rule := &dynamicconfig.Rule{Migration: &dynamicconfig.Migration{Mode: dynamicconfig.ModeOldShadowNew}}
		m := Migration{From: "even", To: c.to, Both: c.both, OnlyOld: c.onlyOld, OnlyNew: c.onlyNew, Neither: c.none}
		m.judge(rule, c.moved, max(c.onlyOld-c.onlyNew, 0))
		if m.Verdict != c.want || m.Verdict == GoBack && strings.HasSuffix(m.Because, "rejects") {
			t.Errorf("%s: %s, because %s; want %s", name, m.Verdict, m.Because, c.want)
		}
	}
}
