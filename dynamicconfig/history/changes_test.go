// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
)

// drawRule is a rule with this key, in one of the forms that limits files have.
func drawRule(t *rapid.T, key string) string {
	limit := rapid.IntRange(1, 3).Draw(t, "limit")
	return fmt.Sprintf(rapid.SampledFrom([]string{
		"  - {key: %q, limit: %d/s}\n",
		"  - key: %q\n    limit: %d/s\n",
		"  # of a team\n  - key: %q\n    limit: %d/s # agreed\n\n",
		"  - key: %q\n    limit: %d/s\n    burst: 5\n",
		"  - key: %q\n    limit: %d/s\n    migrate:\n      from: even\n      to: auto\n      mode: old\n",
		"  - {key: %q, limit: %d/s, description: \"in\n  - {key: lines, limit: 1/s}\n  - two\"}\n",
		"  - key: %q\n    limit: %d/s\n    description: 'in\n  - {key: lines, limit: 1/s} # '\n",
	}).Draw(t, "form"), key, limit)
}

// Comparing only the rules that differ finds the same changes as comparing all rules.
func TestChangesOfAPartAreThoseOfTheWhole(t *testing.T) {
	used := 0
	rapid.Check(t, func(t *rapid.T) {
		var keys, list []string
		add := func(at int) {
			key := fmt.Sprint("k", len(keys), rapid.SampledFrom([]string{"", ":*"}).Draw(t, "glob"))
			keys, list = append(keys, key), slices.Insert(list, at, drawRule(t, key))
		}
		text := func() string {
			if len(list) == 0 {
				return "limits: []\n"
			}
			return rapid.SampledFrom([]string{"", "", "defaults: {fallback: open}\n"}).Draw(t, "defaults") + "limits:\n" + strings.Join(list, "") +
				rapid.SampledFrom([]string{"", "", "overrides:\n  - {key: k1, limit: 2x, until: 2026-11-23T05:00:00Z, author: ada, reason: the sale}\n"}).Draw(t, "overrides")
		}
		for range rapid.IntRange(0, 8).Draw(t, "rules") {
			add(len(list))
		}
		old := text()
		for range rapid.IntRange(0, 3).Draw(t, "edits") {
			at := rapid.IntRange(0, len(list)).Draw(t, "at")
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case kind == 0 || at == len(list):
				add(at)
			case kind == 1:
				list = slices.Delete(list, at, at+1)
			case kind == 2:
				r := list[at]
				list = slices.Delete(list, at, at+1)
				list = slices.Insert(list, rapid.IntRange(0, len(list)).Draw(t, "to"), r)
			default:
				list[at] = strings.Replace(list[at], "limit: ", "limit: 1", 1)
			}
		}
		new := text()
		want, err := diff("old", old, "new", new)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, old, new)
		}
		most := rapid.IntRange(1, 4).Draw(t, "most")
		oldPart, newPart, left, ok := differing(old, new, most)
		if !ok {
			return
		}
		used++
		got, err := diff("old", oldPart, "new", newPart)
		if err != nil {
			t.Fatalf("%v\n%s", err, newPart)
		}
		if left > 0 { // rules that were added, or removed, come one after the other
			if len(got)+left != len(want) || len(got) < most {
				t.Fatalf("%d changes and %d more, want %d\n%s\n%s", len(got), left, len(want), oldPart, newPart)
			}
			want = slices.DeleteFunc(want, func(c dynamicconfig.Change) bool {
				return !slices.ContainsFunc(got, func(g dynamicconfig.Change) bool { return reflect.DeepEqual(g, c) })
			})
		}
		if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("%v, want %v\n%s\n%s", got, want, oldPart, newPart)
		}
	})
	if used == 0 {
		t.Error("no text was taken apart")
	}
}

// Finding the changes of a version that changed one rule of many parses that rule and no other.
func TestChangesOfLargeTextsCostWhatDiffers(t *testing.T) {
	var text strings.Builder
	text.WriteString("limits:\n")
	for i := range 50_000 {
		fmt.Fprintf(&text, "  - key: \"k:%05d\"\n    limit: 10/s\n", i)
	}
	first := text.String()
	begin, at := "limits: []\n", strings.Index(first, "  - key: \"k:25000\"")
	changed := first[:at] + strings.Replace(first[at:], "10/s", "11/s", 1)
	for name, c := range map[string]struct {
		before, after string
		want          string
		more          int
	}{
		"one rule changes":  {first, changed, `rule "k:25000": limit 10/s → 11/s, burst 10 → 11`, 0},
		"one rule is gone":  {first, strings.Replace(first, "  - key: \"k:25000\"\n    limit: 10/s\n", "", 1), `rule "k:25000" removed`, 0},
		"many rules change": {first, strings.ReplaceAll(first, "777\"\n    limit: 10/s", "777\"\n    limit: 11/s"), `rule "k:00777": limit 10/s → 11/s, burst 10 → 11`, 0},
		"a rule comes last": {first, first + "  - {key: z, limit: 1/s}\n", `rule "z" added`, 0},
		"all rules are new": {begin, first, `rule "k:00000" added`, 49_500},
		"all rules go":      {first, begin, `rule "k:00000" removed`, 49_500},
	} {
		var was, is runtime.MemStats
		runtime.ReadMemStats(&was)
		changes, more, err := Changes(Version{Text: c.before}, Version{Text: c.after}, 500)
		runtime.ReadMemStats(&is)
		if err != nil || len(changes) == 0 || changes[0].String() != c.want || more != c.more {
			t.Fatalf("%s: %v, %d changes and %d more: %v", name, err, len(changes), more, changes[:min(len(changes), 3)])
		}
		if bytes := is.TotalAlloc - was.TotalAlloc; bytes > 24<<20 {
			t.Errorf("%s: %d bytes were allocated", name, bytes)
		}
	}
}
