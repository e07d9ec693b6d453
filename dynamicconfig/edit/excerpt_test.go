// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

// lines are n rules in several forms, with comments and text around them.
func lines(n int) string {
	var b strings.Builder
	b.WriteString("# of all teams\noverrides:\n- {key: k1, limit: 2x, until: 2026-11-21T06:00:00Z, author: ada, reason: the sale}\nlimits:\n  # the first\n")
	for i := range n {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "  - key: k%d # plain\n    limit: %d/s\n\n", i, i+1)
		case 1:
			fmt.Fprintf(&b, "  # above\n  - {key: k%d, limit: %d/s}\n", i, i+1)
		case 2:
			fmt.Fprintf(&b, "  - limit: %d/s\n    description: |\n      - no rule\n    key: k%d\n  # below\n", i+1, i)
		default:
			fmt.Fprintf(&b, "  - key: \"k%d:*\"\n    limit: %d/s\n    algorithm:\n      account: pool\n      weigh: fair-share\n", i, i+1)
		}
	}
	b.WriteString("# the rest\nunmatched: deny\n")
	return b.String()
}

func TestEditsOfAnExcerptAreThoseOfTheWhole(t *testing.T) {
	const n = 9
	text := lines(n)
	s, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"new", "k3:a*"}
	for _, r := range s.Rules() {
		keys = append(keys, r.Key)
	}
	_, numbers := numbersOf(s, keys...)
	for name, edit := range map[string]func(d *document, key string){
		"set":    func(d *document, key string) { d.set(d.rules[d.numbers[key]], Field{"burst", "7"}) },
		"limit":  func(d *document, key string) { d.set(d.rules[d.numbers[key]], Field{"limit", "7/s"}) },
		"remove": func(d *document, key string) { d.remove(d.rules[d.numbers[key]]) },
		"add before": func(d *document, key string) {
			d.add(key, []Field{{"key", "new"}, {"limit", "1/s"}})
		},
	} {
		for _, key := range keys {
			number, ok := numbers[key]
			if !ok {
				if name != "add before" {
					continue
				}
				key, number = "", -1
			}
			apply := func(x excerpt) string {
				d, err := read(x)
				if err != nil {
					t.Fatal(err)
				}
				edit(d, key)
				text, err := d.apply()
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			few, all := apply(excerptOf(text, n, []int{number})), apply(excerpt{text, []part{{0, len(text)}}})
			if few != all {
				t.Errorf("%s %q: from an excerpt\n%s\nfrom the whole\n%s", name, key, few, all)
			}
		}
	}
}

func TestAnEditOfALargeFileReadsOnlyWhatItNeeds(t *testing.T) {
	const n = 2000
	text := lines(n)
	for name, number := range map[string]int{"none": -1, "the first": 0, "one within": 1000, "the last": n - 1} {
		d, err := read(excerptOf(text, n, []int{number}))
		if err != nil {
			t.Fatal(err)
		}
		if len(d.rules) > 5 {
			t.Errorf("%s: %d rules are read", name, len(d.rules))
		}
	}
	changed, err := Set(text, "k1000", Field{"limit", "5/s"})
	if want := strings.Replace(text, "limit: 1001/s", "limit: 5/s", 1); err != nil || changed != want {
		t.Errorf("the limit is not all that has changed, error %v", err)
	}
}

func TestAFirstStepOfManyRulesIsOneEdit(t *testing.T) {
	const n = 2000
	from, err := dynamicconfig.Parse("limits", []byte(lines(n)))
	if err != nil {
		t.Fatal(err)
	}
	to, err := dynamicconfig.Parse("limits", []byte(strings.ReplaceAll(lines(n), "/s\n", "/m\n")))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Enforce(from, to, 10)
	if got, want := strings.Count(text, "enforce: 10%"), 3*n/4; err != nil || got != want {
		t.Errorf("%d rules are enforced in part, and %d change; error %v", got, want, err)
	}
}
