// SPDX-License-Identifier: Apache-2.0

package edit_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/edit"
)

func TestOverridesAreWrittenIntoTheirSectionOnly(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	o := dynamicconfig.Override{Key: "a:*", Factor: 2, Until: now.Add(2 * time.Hour), Author: "ada", Reason: "the sale: it is early"}
	const written = `overrides:
  - key: "a:*"
    limit: 2x
    until: 2026-11-23T05:00:00Z
    author: "ada"
    reason: "the sale: it is early"
`
	const rules = "# ours\nlimits:\n- {key: \"a:*\", limit: 1/s} # few\n"
	other := strings.Replace(written, "2x", "3x", 1)
	for name, tt := range map[string]struct{ before, after string }{
		"a new section":           {rules, rules + written},
		"another amount":          {rules + other, rules + written},
		"before another section":  {other + "\n# next\nunmatched: deny\n", written + "\n# next\nunmatched: deny\n"},
		"a list that is not in":   {"overrides:\n- {key: b, limit: 2x, until: 2026-11-23T05:00:00Z, author: a, reason: r}\n# c\n- key: \"a:*\"\n  limit: bypass\n  until: 2026-11-23T05:00:00Z\n  author: a\n  reason: r\n" + rules, "overrides:\n  - key: \"b\"\n    limit: 2x\n    until: 2026-11-23T05:00:00Z\n    author: \"a\"\n    reason: \"r\"\n" + written[len("overrides:\n"):] + rules},
		"an empty list":           {"overrides: [] # none\n" + rules, written + rules},
		"one that has ended":      {rules + "overrides: [{key: z, limit: 2x, until: 2026-11-23T03:00:00Z, author: a, reason: r}]\n", rules + written},
		"another end of line":     {"limits: []\r\n", "limits: []\r\n" + strings.ReplaceAll(written, "\n", "\r\n")},
		"no end of the last line": {"limits: []", "limits: []\n" + written},
	} {
		got, err := edit.Override(tt.before, o, now)
		if err != nil || got != tt.after {
			t.Errorf("%s: %v\n%s\nwant:\n%s", name, err, got, tt.after)
			continue
		}
		if got, err = edit.EndOverride(got, "a:*", false, now); err != nil || strings.Contains(got, "sale") {
			t.Errorf("%s: not removed: %v\n%s", name, err, got)
		}
		if _, err := edit.EndOverride(got, "a:*", false, now); !errors.Is(err, edit.ErrNoOverride) {
			t.Errorf("%s: removed twice: %v", name, err)
		}
	}
	o.Reason = ""
	if _, err := edit.Override(rules, o, now); err == nil || !strings.Contains(err.Error(), "has no reason") {
		t.Errorf("an override without a reason: %v", err)
	}
}

func TestOverridesOfJSONAreJSON(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	o := dynamicconfig.Override{Key: "a:*", Factor: 2, Until: now.Add(2 * time.Hour), Author: "ada", Reason: "the sale: it is early"}
	const section = `"overrides": [{"key": "a:*", "limit": "2x", "until": "2026-11-23T05:00:00Z", "author": "ada", "reason": "the sale: it is early"}]`
	for before, after := range map[string]string{
		`{"limits": [], "unmatched": "deny"}`:               `{"limits": [], "unmatched": "deny", ` + section + `}`,
		"{\n  \"limits\": []\n}\n":                          "{\n  \"limits\": [],\n  " + section + "\n}\n",
		`{"overrides": [], "limits": []}`:                   `{` + section + `, "limits": []}`,
		"{" + strings.Replace(section, "2x", "3x", 1) + "}": `{` + section + `}`,
	} {
		got, err := edit.Override(before, o, now)
		if err != nil || got != after {
			t.Errorf("%s: %v\n%s\nwant:\n%s", before, err, got, after)
			continue
		}
		if got, err = edit.EndOverride(got, "a:*", false, now); err != nil || strings.Contains(got, "overrides") || !json.Valid([]byte(got)) {
			t.Errorf("%s: not removed: %v\n%s", before, err, got)
		}
	}
}
