// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func diffOf(t *testing.T, old, new string) []Change {
	t.Helper()
	return Diff(mustParse(t, old), mustParse(t, new))
}

func TestDiffNamesWhatChanged(t *testing.T) {
	const base = `
defaults: {update_interval: 3s}
limits:
  - {key: a, limit: 100/s}
  - {key: "b*", limit: 10/s}
  - {key: "c*", limit: 10/s}
properties: {secret: old, kept: 1}
`
	replaced := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(base) }
	for _, row := range []struct {
		name, new string
		want      []string
	}{
		{"nothing", base, nil},
		{"a comment", base + "# more\n", nil},
		{"a limit", replaced("100/s", "50/s"), []string{`rule "a": limit 100/s → 50/s, burst 100 → 50`}},
		{"a field that was not stated", replaced("100/s", "100/s, max_wait: 5s"), []string{`rule "a": max_wait unset → 5s`}},
		{"an algorithm for a migration", replaced("100/s", "100/s, migrate: {from: elastic, to: exact, mode: old}"), []string{
			`rule "a": algorithm auto → unset, migrate unset → {from: elastic, mode: old, to: exact}`,
		}},
		{"another rule", replaced("key: a,", "key: d,"), []string{`rule "d" added`, `rule "a" removed`}},
		{"the order", replaced("b*", "c*", "c*", "b*"), []string{"order of the rules changed"}},
		{"unmatched", base + "unmatched: deny\n", []string{"unmatched: action allow → deny"}},
		{"a property", replaced("secret: old", "secret: new", "kept", "added"), []string{`property "added" added`, `property "kept" removed`, `property "secret" changed`}},
		{"all rules by a default", replaced("{update", "{max_keys: 5, update"), []string{
			`rule "a": max_keys 100000 → 5`, `rule "b*": max_keys 100000 → 5`, `rule "c*": max_keys 100000 → 5`,
		}},
		{"slots", replaced("100/s", "7 in-flight, algorithm: even"), []string{
			`rule "a": limit 100/s → 7 in-flight, burst 100 → unset, algorithm auto → even, ask_timeout 20ms → unset`,
		}},
	} {
		var got []string
		for _, c := range diffOf(t, base, row.new) {
			got = append(got, c.String())
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	changes := diffOf(t, base, replaced("update_interval: 3s", "update_interval: 4s"))
	if c := changes[0]; c.Section != "defaults" || c.Kind != Changed || c.Fields[0] != (FieldChange{"update_interval", "3s", "4s"}) {
		t.Errorf("%+v", c)
	}
}

func TestDiffOfTheRuleOfUnmatchedKeys(t *testing.T) {
	const with = "limits: []\nunmatched: {limit: %s}\n"
	changes := diffOf(t, fmt.Sprintf(with, "10/s"), fmt.Sprintf(with, "20/s"))
	if len(changes) != 1 || changes[0].String() != "unmatched: limit 10/s → 20/s, burst 10 → 20" {
		t.Errorf("%v", changes)
	}
	changes = diffOf(t, "limits: []", fmt.Sprintf(with, "10/s"))
	if text := fmt.Sprint(changes); len(changes) != 1 || !strings.Contains(text, "action allow → rule, limit unset → 10/s") || !strings.Contains(text, "and ") {
		t.Errorf("%s", text)
	}
}

func TestDiffOfAMigrationShowsThePartsThatDiffer(t *testing.T) {
	const with = "limits: [{key: a, limit: 1/s, migrate: {from: request-weighted-even-floor, to: elastic, mode: %s}}]"
	changes := diffOf(t, fmt.Sprintf(with, "old-shadow-new"), fmt.Sprintf(with, "new-shadow-old"))
	if len(changes) != 1 || changes[0].String() != `rule "a": migrate {mode: old-shadow-new} → {mode: new-shadow-old}` {
		t.Errorf("%v", changes)
	}
}

// A reload is one line in the log, whatever changed.
func TestAReloadIsOneBoundedLine(t *testing.T) {
	text := func(limit, description string) string {
		b := new(strings.Builder)
		b.WriteString("limits:\n")
		for i := range 22 {
			fmt.Fprintf(b, "  - {key: \"%d%s\", limit: %s, description: \"%s\"}\n", i, strings.Repeat("é", 200), limit, description)
		}
		return b.String()
	}
	l := NewLive(mustParse(t, text("1/s", "x")))
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	next := mustParse(t, text("2/s", strings.Repeat("\\n", 1000)))
	l.Run(ctx, &scripted{
		load:    func() (*Snapshot, error) { return next, nil },
		watches: []func(context.Context, func(*Snapshot, error)) error{func(context.Context, func(*Snapshot, error)) error { cancel(); return nil }},
	}, slog.New(slog.NewTextHandler(&log, nil)))
	got := log.String()
	if strings.Count(got, "\n") != 1 || len(got) > 8000 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if strings.Count(got, "limit 1/s → 2/s") != 10 || !strings.Contains(got, "; and 12 more") {
		t.Error(got)
	}
}

func TestADiffCostsWhatDiffers(t *testing.T) {
	old, err := Parse("old", many(20_000))
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(strings.Replace(string(many(20_000)), "tenant-010003:orders", "tenant-010003:mail", 1))
	new, err := Parse("new", changed)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	changes := Diff(old, new)
	runtime.ReadMemStats(&after)
	if len(changes) != 2 || changes[0].Kind != Added || changes[1].Kind != Removed {
		t.Errorf("the changes are %v", changes)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<16 {
		t.Errorf("a diff of one rule of 20,000 takes %d bytes", bytes)
	}
}
