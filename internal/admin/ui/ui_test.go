// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/admin/api/versions"
)

// endless is a body without an end. It counts what is read of it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.read > 1<<30 {
		return 0, io.ErrUnexpectedEOF // nobody who promises a bound comes so far
	}
	for i := range p {
		p[i] = 'a'
	}
	e.read += int64(len(p))
	return len(p), nil
}

// fakeAPI knows the token "right", and keeps the body that it got last.
type fakeAPI struct{ body string }

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	f.body = string(text)
	var v any = versions.Outcome{}
	if r.URL.Path != "/v1/login" && r.Header.Get("Authorization") != "Bearer right" {
		v = reply.Problem{Status: http.StatusUnauthorized, Detail: "who are you?"}
		w.WriteHeader(http.StatusUnauthorized)
	}
	_ = json.NewEncoder(w).Encode(v)
}

const urlencoded = "application/x-www-form-urlencoded"

// multipart is the type of a form with a file, and what comes before the file's bytes.
const (
	multipart = "multipart/form-data; boundary=b"
	aFile     = "--b\r\nContent-Disposition: form-data; name=\"text\"; filename=\"f\"\r\n\r\n"
)

// A stranger who sends a form of any size costs no memory and no disk: nothing of it is read
// before the token is known, and a login is small.
func TestNothingIsReadOfAStrangersForm(t *testing.T) {
	u := New(new(fakeAPI), "here")
	posts := []string{"/key/trace", "/key/reset", "/limits/override", "/migrations/step", "/limits/check", "/limits/review", "/limits/apply", "/limits/rollback", "/logout", "/login", "/nothing"}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPut} {
		for _, path := range append(posts, "/", "/keys", "/limits") {
			for _, kind := range []string{urlencoded, multipart} {
				t.Run(fmt.Sprintf("%s %s %.9s", method, path, kind), func(t *testing.T) {
					var body endless
					r := httptest.NewRequest(method, path, io.MultiReader(strings.NewReader(map[string]string{multipart: aFile, urlencoded: "text="}[kind]), &body))
					r.Header.Set("Content-Type", kind)
					w := httptest.NewRecorder()
					u.ServeHTTP(w, r)
					if body.read > 2*maxLogin {
						t.Errorf("%d bytes were read, and the answer is %d", body.read, w.Code)
					}
				})
			}
		}
	}
}

// An operator's form is read up to a bound, whatever it is, and what is larger is refused and
// not cut off.
func TestAnOperatorsFormIsBounded(t *testing.T) {
	f := new(fakeAPI)
	u := New(f, "here")
	post := func(kind string, body io.Reader) int {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/limits/check", body)
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Authorization", "Bearer right")
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		return w.Code
	}
	const text = "limits: []\n# %&+ü"
	if code := post(urlencoded, strings.NewReader(url.Values{"text": {strings.ReplaceAll(text, "\n", "\r\n")}}.Encode())); code != http.StatusOK || f.body != text {
		t.Errorf("%d, and the API got %q", code, f.body)
	}
	for kind, begins := range map[string]string{multipart: aFile, urlencoded: "text="} {
		var body endless
		code := post(kind, io.MultiReader(strings.NewReader(begins), &body))
		if body.read > maxForm+1<<20 || kind == urlencoded && code != http.StatusRequestEntityTooLarge {
			t.Errorf("%.9s: %d bytes were read, and the answer is %d", kind, body.read, code)
		}
	}
}

// The page of a key asks for that key again and again, and for no other one, whatever its name is:
// rpc/middleware/httplimit puts % into keys, and people put + into addresses.
func TestThePageOfAKeyAsksForThatKey(t *testing.T) {
	u := New(new(fakeAPI), "here")
	for _, key := range []string{"orders:a", "login:alice+1@example.org", "path:a%2Fb", "a&key=b", "a#b", "a b;c", `"><script>`, "größe"} {
		r := httptest.NewRequest(http.MethodGet, "/key?"+url.Values{"key": {key}}.Encode(), http.NoBody)
		r.Header.Set("Authorization", "Bearer right")
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		asks := regexp.MustCompile(`(?:hx-get|data-from)="([^"]*key=[^"]*)"`).FindAllStringSubmatch(w.Body.String(), -1)
		if w.Code != http.StatusOK || len(asks) != 2 {
			t.Fatalf("%d, and it asks for %q in\n%s", w.Code, asks, w.Body)
		}
		for _, ask := range asks {
			if to, err := url.Parse(html.UnescapeString(ask[1])); err != nil || to.Query().Get("key") != key {
				t.Errorf("the page of %q asks for %s: %v", key, ask[1], err)
			}
		}
	}
}

// A link to the login leads to a page of this daemon, and to no other site.
func TestALoginLeadsToAPageOfThisDaemon(t *testing.T) {
	u := New(new(fakeAPI), "here")
	for to, want := range map[string]string{
		"/keys?like=a&sort=name": "/keys?like=a&sort=name", "/key?key=a%2Fb": "/key?key=a%2Fb", "": "/", "keys": "/",
		"//evil.example": "/", `/\evil.example`: "/", "https://evil.example": "/", "/\t/evil.example": "/", "/\n/evil.example": "/", "/\r\n/evil.example": "/", "\t//evil.example": "/",
	} {
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(url.Values{"token": {"right"}, "next": {to}}.Encode()))
		r.Header.Set("Content-Type", urlencoded)
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
			t.Errorf("next=%q: %d to %q, want %q", to, w.Code, got, want)
		}
	}
}

// A form names the version that it is about as the API does, so that one of a database that was
// replaced since changes nothing.
func TestAFormNamesItsVersionAsTheAPIDoes(t *testing.T) {
	var match []string
	u := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if field := r.Header.Get("If-Match"); field != "" {
			match = append(match, field)
			_ = json.NewEncoder(w).Encode(versions.Outcome{Version: 8, Fingerprint: "f8"})
			return
		}
		v := map[string]any{"version": 7, "fingerprint": "f7", "migrations": []map[string]any{{"rule": "a", "mode": "old-shadow-new", "next": "new-shadow-old"}}}
		if r.URL.Path == "/v1/me" {
			v = map[string]any{"changes": true}
		}
		_ = json.NewEncoder(w).Encode(v)
	}), "here")
	base := func(method, path string, form url.Values) string {
		r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", urlencoded)
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		found := regexp.MustCompile(`name="base"[^>]* value="([^"]*)"`).FindStringSubmatch(w.Body.String())
		if w.Code != http.StatusOK || len(found) != 2 {
			return fmt.Sprintf("%d: %s", w.Code, w.Body)
		}
		return found[1]
	}
	for _, path := range []string{"/limits", "/limits/version?version=6", "/migrations"} {
		if got := base(http.MethodGet, path, nil); got != "7-f7" {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := base(http.MethodPost, "/limits/apply", url.Values{"base": {"7-f7"}, "enforce": {"10"}}); got != "8-f8" {
		t.Errorf("the next step is on top of %s", got)
	}
	if got := base(http.MethodPost, "/limits/rollback", url.Values{"base": {"7-f7"}, "to": {"6"}}); got != "7-f7" {
		t.Errorf("what is confirmed is on top of %s", got)
	}
	base(http.MethodPost, "/migrations/step", url.Values{"base": {"7-f7"}})
	if want := `"7-f7" "7-f7" "7-f7"`; strings.Join(match, " ") != want {
		t.Errorf("If-Match: %q, want %s", match, want)
	}
}

// Who checks limits, reviews a change or confirms a rollback sees the likely mistakes.
func TestLikelyMistakesAreShown(t *testing.T) {
	u := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(versions.Outcome{Rules: 2, Warnings: []reply.Mistake{{Line: 3, Column: 1, Message: "it looks like another"}}})
	}), "here")
	for path, form := range map[string]url.Values{"/limits/check": {}, "/limits/review": {"base": {"7-f7"}}, "/limits/rollback": {"base": {"7-f7"}, "to": {"6"}}} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", urlencoded)
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		if page := w.Body.String(); !strings.Contains(page, "it looks like another") || strings.Contains(page, "without a mistake") {
			t.Errorf("%s: %d\n%s", path, w.Code, page)
		}
	}
}

// A page of limits with a large text has some of its rules, and the text for those who ask for it.
func TestALargeTextIsNotInThePage(t *testing.T) {
	text := "limits:\n" + strings.Repeat("  - {key: a, limit: 1/s}\n", 100_000)
	var asked []string
	u := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := map[string]any{"version": 7, "fingerprint": "f7", "text": text, "versions": []any{}, "changes": make([]versions.Change, 500), "more": 99_500}
		if r.URL.Query().Has("text") {
			v["text"], v["size"] = "", len(text)
		}
		if r.URL.Path == "/v1/limits/rules" {
			asked = append(asked, r.URL.RawQuery)
			var rules []map[string]any
			for i := range 100 {
				rules = append(rules, map[string]any{"key": fmt.Sprintf("k&%d", i), "limit": "1/s", "burst": 20, "algorithm": "auto", "override": "bypass until then"})
			}
			v = map[string]any{"rules": rules}
		}
		if r.URL.Path == "/v1/me" {
			v = map[string]any{"changes": true}
		}
		_ = json.NewEncoder(w).Encode(v)
	}), "here")
	get := func(path, htmx string) string {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("HX-Request", htmx)
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		return w.Body.String()
	}
	for path, part := range map[string]string{
		"/limits":                   `<a href="/limits?like=&amp;after=k%2699">More rules</a>`,
		"/limits?like=k%26&after=k": `<a href="/limits?like=k%26&amp;after=k%2699">More rules</a>`,
		"/limits/version?version=5": "There are 99500 more changes.",
		"/limits/version?version=6": `<a href="/limits/version?version=7&amp;text">show it</a>`,
	} {
		if page := get(path, ""); len(page) > 64<<10 || !strings.Contains(page, part) || strings.Contains(page, "<textarea") {
			t.Errorf("%s: %d bytes: %.3000s", path, len(page), page)
		}
	}
	for _, path := range []string{"/limits?text", "/limits/version?version=6&text"} {
		if page := get(path, ""); len(page) < len(text) {
			t.Errorf("%s: %d bytes: %.2000s", path, len(page), page)
		}
	}
	if page := get("/limits?like=b", "true"); strings.Contains(page, "<html") || !strings.Contains(page, "bypass until then") || !slices.Contains(asked, "after=&like=b&n=100") {
		t.Errorf("asked %q: %.2000s", asked, page)
	}
}

// A form that the script sends does nothing without the script, and keeps what was typed: as a form of GET it left the
// page, with all fields in the address.
func TestFormsOfTheScriptDoNothingWithoutIt(t *testing.T) {
	pages, err := fs.Glob(templates, "pages/*.html")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, name := range pages {
		text, err := templates.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range regexp.MustCompile(`<form[^>]*hx-post[^>]*>`).FindAllString(string(text), -1) {
			if !strings.Contains(form, `method="dialog"`) {
				t.Errorf("%s: %s", name, form)
			}
		}
	}
}
