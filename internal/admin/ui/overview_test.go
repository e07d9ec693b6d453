// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/admin/api/versions"
)

// Pages that add up what members did say how many of these did not answer, and what they leave out.
func TestPagesSayWhatTheyLack(t *testing.T) {
	u := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := map[string]any{"version": 7, "fingerprint": "f7"}
		switch r.URL.Path {
		case "/v1/limits/dry-run":
			v = map[string]any{"keys": []map[string]any{{"key": "a"}}, "more": 3, "silent": 2}
		case "/v1/migrations":
			v = map[string]any{"migrations": []map[string]any{{"rule": "a", "keys": []map[string]any{{"key": "a"}}, "more": 4}}, "silent": 1}
		}
		_ = json.NewEncoder(w).Encode(v)
	}), "here")
	for path, want := range map[string][]string{
		"/limits/review": {"2 members do not answer", "3 more keys that it changes"},
		"/migrations":    {"1 member does not answer", "4 more differ less"},
	} {
		method := http.MethodGet
		if path == "/limits/review" {
			method = http.MethodPost
		}
		r := httptest.NewRequest(method, path, strings.NewReader(url.Values{"base": {"7-f7"}}.Encode()))
		r.Header.Set("Content-Type", urlencoded)
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		for _, part := range want {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("%s: %d, without %q:\n%s", path, w.Code, part, w.Body)
			}
		}
	}
}

// A page asks before it takes a migration further against the verdict, as the command does, and not before it
// goes back.
func TestAStepAgainstTheVerdictIsConfirmed(t *testing.T) {
	for verdict, asks := range map[string]bool{"advance": false, "wait": true, "back": true} {
		u := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"changes": true, "migrations": []map[string]any{{"rule": "a", "next": "new", "back": "old", "verdict": verdict, "because": "so it is"}}})
		}), "here")
		w := httptest.NewRecorder()
		u.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/migrations", http.NoBody))
		page := w.Body.String()
		if strings.Count(page, "hx-confirm") != strings.Count(page, `hx-confirm="The verdict is `+verdict+`: so it is. Advance to new all the same?"`) || strings.Contains(page, "hx-confirm") != asks || strings.Count(page, `<form method="dialog" hx-post`) != 2 {
			t.Errorf("%s: %s", verdict, page)
		}
	}
}

// When a migration ends, its buttons must not become those of the next one under a reader's focus, nor the one that
// advances the one that goes back: a part that comes anew puts new content into elements of the same id, or of none.
func TestTheButtonsOfAMigrationStayItsOwn(t *testing.T) {
	ids := func(rules ...string) (all []string) {
		var migrations []map[string]any
		for _, rule := range rules {
			migrations = append(migrations, map[string]any{"rule": rule, "next": "new", "back": "old"})
		}
		u := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"changes": true, "migrations": migrations})
		}), "here")
		w := httptest.NewRecorder()
		u.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/migrations", http.NoBody))
		for _, found := range regexp.MustCompile(`<(?:section|form method="dialog" hx-post="/migrations/step") id="([^"]+)"`).FindAllStringSubmatch(w.Body.String(), -1) {
			all = append(all, found[1])
		}
		return all
	}
	both, a, b := ids("a", "b"), ids("a"), ids("b")
	if !slices.Equal(both, slices.Concat(a, b)) || len(slices.Compact(slices.Sorted(slices.Values(both)))) != 6 {
		t.Errorf("a and b: %q, a: %q, b: %q", both, a, b)
	}
}

// The overview says what is in force for all rules, and how many overrides change something.
func TestTheOverviewSaysWhatHoldsForAllRules(t *testing.T) {
	until := time.Date(2026, 11, 28, 3, 20, 0, 0, time.UTC)
	own := versions.Override{Key: "a", Limit: "2x", Until: until}
	all := versions.Override{All: true, Limit: "bypass", Until: until, Author: "ada", Reason: "nothing works"}
	ended, idle, half := all, all, all
	ended.Ended, idle.Because, half.Limit = true, "a bypass counts before it", "0.5x"
	for _, c := range []struct {
		holds []versions.Override
		want  []string
	}{
		{nil, nil},
		{[]versions.Override{own, ended, idle}, []string{`overrides that hold</dt><dd><a href="/limits#overrides">1<`}},
		{[]versions.Override{all, own}, []string{`overrides that hold</dt><dd><a href="/limits#overrides">2<`, "All rules are bypassed until 2026-11-28 03:20 UTC, by ada: nothing works."}},
		{[]versions.Override{half}, []string{`overrides that hold</dt><dd><a href="/limits#overrides">1<`, "All rules have the limit 0.5x until 2026-11-28 03:20 UTC, by ada: nothing works."}},
	} {
		u := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v := map[string]any{}
			if r.URL.Path == "/v1/limits/overrides" {
				v["overrides"] = c.holds
			}
			_ = json.NewEncoder(w).Encode(v)
		}), "here")
		w := httptest.NewRecorder()
		u.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		page := w.Body.String()
		for _, want := range c.want {
			if !strings.Contains(page, want) {
				t.Errorf("%+v: no %q in\n%s", c.holds, want, page)
			}
		}
		if w.Code != http.StatusOK || strings.Contains(page, "overrides that hold") != (len(c.want) > 0) || strings.Contains(page, "All rules") != (len(c.want) > 1) {
			t.Errorf("%+v: %d\n%s", c.holds, w.Code, page)
		}
	}
}
