// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"strings"
	"testing"
)

func TestWarningsSayWhatIsSurelyNotMeant(t *testing.T) {
	for key, want := range map[string]string{
		"orders-ä/日本":   "",
		"„orders“":      `has the character „ (U+201E), which looks like " and is not: write "`,
		"it’s":          "has the character ’ (U+2019), which looks like ' and is not: write '",
		"a–b":           "has the character – (U+2013), which looks like - and is not: write -",
		"mail：x":        "has the character ： (U+FF1A), which looks like : and is not: write :",
		"a\u200bb":      "has the character U+200B, which cannot be seen: remove it",
		"a\u00a0b":      "has the character U+00A0, which cannot be seen: remove it",
		"a\x00b":        "has the character U+0000, which cannot be seen: remove it",
		"a\x1bm":        "has the character U+001B, which cannot be seen: remove it",
		"a\tb":          "has the character U+0009, which cannot be seen: remove it",
		"\u043erders":   "has the letter о (U+043E) beside Latin letters, which it may look like: type the key again",
		"заказы":        "",
		" orders":       "begins or ends with a space: remove it",
		"service.*":     "",
		"{tenant}:x,y":  "",
		"a:{b,c}":       "has {b,c}, which stands for itself only: write a rule for each, or a *",
		"a:${ENV}:*":    "has ${ENV}, which stands for itself only: write its value, or a *",
		"a:{header:X}":  "has {header:X}, which stands for itself only: write its value, or a *",
		"(a|b):*":       "has (a|b), which stands for itself only: write a rule for each, or a *",
		`db:\d*`:        `has \d, which a glob does not know: write [0-9]`,
		`db:\\d`:        "",
		"a:.+":          "has .+, which a glob does not know: write ?*",
		"^a:*$":         "begins with ^, which stands for itself only: remove it, because a glob matches whole keys",
		"[a-z]*:orders": "",
	} {
		s, err := Config{Name: "x", Rules: []Rule{{Key: key, Limit: 1}}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		got := s.Warnings()
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasSuffix(got[0].Error(), want)) {
			t.Errorf("%q: %v, want %s", key, got, want)
		}
	}
}

func TestWarningsNameCostsThatNoEventMayHave(t *testing.T) {
	for rule, want := range map[string]string{
		"limit: 5/s, max_cost: 100, max_debt: 10s":   "max_cost: 100 can never be had: the burst and what fills in within max_debt are 55: use at most that, or add max_debt: 19s",
		"limit: 5/s, max_cost: 100, max_debt: 19s":   "",
		"limit: 5/s, max_cost: 1e12, max_debt: 10s":  "",
		"limit: 1/d, max_cost: 100, max_debt: 1h":    "max_cost: 100 can never be had: the burst and what fills in within max_debt are 1: use at most that",
		"limit: 5/s, burst: 100, max_debt: 1s":       "",
		"limit: 0/s, max_cost: 100, max_debt: 10s":   "",
		"limit: 5 in-flight, algorithm: fair-share":  "",
		"limit: 5/s, max_cost: 6, max_debt: 500ms":   "",
		"limit: 5/s, burst: 50, max_cost: 50":        "",
		"limit: 5/s, max_cost: 8.5, max_debt: 500ms": "max_cost: 8.5 can never be had: the burst and what fills in within max_debt are 7: use at most that, or add max_debt: 1s",
	} {
		s, err := Parse("x", []byte("limits: [{key: a, "+rule+"}]"))
		if err != nil {
			t.Fatal(rule, err)
		}
		got := s.Warnings()
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].Message != `rule "a": `+want) {
			t.Errorf("%s: %v, want %s", rule, got, want)
		}
	}
}

func TestWarningsNameGlobsThatAreNeverUsed(t *testing.T) {
	var c Config
	for _, key := range []string{"mail:news-*", "mail:*", "mail:user-?", "mail:exact", `\mail:*`, "?b*c", "abbc*c", "?bc", "[a-c]x", "[ab]x", "*:z", "y*:z", "y*z"} {
		c.Rules = append(c.Rules, Rule{Key: key, Limit: 1})
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var hidden []string
	for _, w := range s.Warnings() {
		hidden = append(hidden, w.Message[:strings.Index(w.Message, ": move ")])
	}
	want := []string{
		`rule "mail:user-?" is never used: "mail:*" stands before it and matches all of its keys`,
		`rule "\\mail:*" is never used: "mail:*" stands before it and matches all of its keys`,
		`rule "abbc*c" is never used: "?b*c" stands before it and matches all of its keys`,
		`rule "?bc" is never used: "?b*c" stands before it and matches all of its keys`,
		`rule "[ab]x" is never used: "[a-c]x" stands before it and matches all of its keys`,
		`rule "y*:z" is never used: "*:z" stands before it and matches all of its keys`,
	}
	if fmt.Sprintf("%q", hidden) != fmt.Sprintf("%q", want) {
		t.Errorf("hidden are\n%s\nwant\n%s", strings.Join(hidden, "\n"), strings.Join(want, "\n"))
	}
}

// Patterns that begin alike, and those that are built to be hard, take no long time.
func TestWarningsAreBounded(t *testing.T) {
	var c Config
	for i := range 3000 {
		c.Rules = append(c.Rules, Rule{Key: fmt.Sprintf("*a??????????????????????%d*", i), Limit: 1})
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Warnings(); len(got) > 0 {
		t.Errorf("%d of the globs are said to be never used: %v", len(got), got[0])
	}
}
