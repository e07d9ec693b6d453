// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sql/sqlite"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/keys"
	"github.com/headgate/headgate/internal/admin/api/large"
	"github.com/headgate/headgate/internal/admin/api/migrate"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/admin/api/versions"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/loglimit"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/limiter/stage"
)

func TestMain(m *testing.M) {
	testrun.CollectLess()
	waittest.Main(m)
}

var rights = `
callers:
  - {name: root, tokens: ["` + callers.Hash("root-token") + `"], see: ["*"], change: ["*"]}
  - {name: orders, tokens: ["` + callers.Hash("orders-token") + `"], see: ["orders:*"], change: ["orders:*"]}
  - {name: reader, tokens: ["` + callers.Hash("reader-token") + `"], see: ["*"]}
  - {name: program, tokens: ["` + callers.Hash("program-token") + `"], use: ["*"]}
`

const firstText = `limits:
  - {key: "orders:*", limit: 100/s, algorithm: even}
  - {key: "billing:*", limit: 50/s, algorithm: even}
  - {key: "people:*", limit: 5/s, algorithm: even, private: true}
`

// setup is an API over a real database, whose newest version is in force at once.
type setup struct {
	*API
	Options // call renew after you change one

	log *bytes.Buffer
}

// renew has the API answer from the Options as they are now.
func (s *setup) renew() { s.API = New(s.Options) }

func start(t testing.TB, policy string) *setup {
	t.Helper()
	p, err := callers.Parse([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	store := sqlite.New(t.TempDir())
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := dynamicconfig.Parse("limits", []byte(firstText))
	if err != nil {
		t.Fatal(err)
	}
	live := dynamicconfig.NewLive(s, dynamicconfig.WithCheck(func(s *dynamicconfig.Snapshot) error {
		return s.Check(func(name string) bool { return name == "even" || name == "elastic" })
	}))
	group := limiter.NewGroup(s, 1)
	live.Subscribe(func(_, new *dynamicconfig.Snapshot) { group.Configure(new) })
	log := new(bytes.Buffer)
	o := Options{
		Limits: live, Store: store, Operators: func() *callers.Policy { return p },
		Status:  func() any { return map[string]int{"rules": 3} },
		Cluster: func() any { return map[string]string{"host": "here"} },
		Keys: keys.Source{
			InUse:     group.Keys,
			Counts:    group.Counts,
			Programs:  func(func(key string, allowed, rejected float64)) {},
			OwnedKeys: func() []string { return nil },
			Owned:     func(string) []explain.Owned { return nil },
			Look:      func(key string) explain.Key { return explain.Look(group, live.Current(), 1, key) },
			Explain: func(_ context.Context, key string) explain.Explanation {
				return explain.Sum(live.Current(), key, "here", []explain.Host{explain.Here("here", group, live.Current(), 1, key)})
			},
			Trace: func(_ context.Context, key string, on bool) map[string]error {
				group.Trace(key, on)
				return map[string]error{"there": errors.New("gone")}
			},
			Reset: func(ctx context.Context, key string) map[string]error {
				if err := group.Reset(ctx, key); err != nil {
					return map[string]error{"here": err}
				}
				return nil
			},
		},
		Events: events.New(time.Now), Log: slog.New(loglimit.New(slog.NewTextHandler(log, nil))),
	}
	return &setup{New(o), o, log}
}

// ask asks as who has a token; fields are those of the header, by turns name and value.
func (s *setup) ask(t testing.TB, token, method, path, body string, fields ...string) (status int, answer string, header http.Header) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
		if fields[i] == "Host" {
			r.Host = fields[i+1]
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if status = w.Code; status >= 400 {
		var p reply.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != status || p.Detail == "" || p.Title == "" || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d is no problem: %s", method, path, status, w.Body)
		}
	}
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s %s may be cached", method, path)
	}
	return status, w.Body.String(), w.Header()
}

// must asks as root, and fails t unless the status is want and the answer has text.
func (s *setup) must(t testing.TB, want int, text, method, path, body string, fields ...string) string {
	t.Helper()
	status, answer, _ := s.ask(t, "root-token", method, path, body, fields...)
	if status != want || !strings.Contains(answer, text) {
		t.Fatalf("%s %s: %d %s; want %d %q", method, path, status, answer, want, text)
	}
	return answer
}

// A call ends although a member hangs, and names that member.
func TestAMemberThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, rights)
		hangs := func(ctx context.Context) map[string]error {
			<-ctx.Done()
			return map[string]error{"there": ctx.Err()}
		}
		s.Keys.Trace = func(ctx context.Context, _ string, _ bool) map[string]error { return hangs(ctx) }
		s.Keys.Reset = func(ctx context.Context, _ string) map[string]error { return hangs(ctx) }
		s.renew()
		const patience = 10 * time.Second // of headgate's commands
		for _, ask := range [][2]string{{"PUT", "/v1/trace?key=orders:a"}, {"DELETE", "/v1/trace?key=orders:a"}, {"POST", "/v1/keys/reset?key=orders:a"}} {
			began := time.Now()
			s.must(t, 200, `"there":"it did not answer in 5s`, ask[0], ask[1], "")
			if took := time.Since(began); took >= patience {
				t.Errorf("%s %s took %v", ask[0], ask[1], took)
			}
		}
	})
}

// From a mistake to a change, and back.
func TestFromAMistakeToARollback(t *testing.T) {
	s := start(t, rights)
	s.must(t, 200, `"version":0`, "GET", "/v1/limits", "")
	s.must(t, 428, `If-Match`, "PUT", "/v1/limits?message=first", firstText)
	s.must(t, 400, `say why`, "PUT", "/v1/limits", firstText, "If-Match", `"0"`)
	s.must(t, 400, `say why`, "PUT", "/v1/limits?message=+", firstText, "If-Match", `"0"`)
	s.must(t, 422, `"line":2,"column":`, "POST", "/v1/limits/check", "limits:\n  - {key: 'a', limit: 100rps}\n  - {key: 'b', limt: 1/s}\n")
	answer := s.must(t, 422, `"line":3`, "PUT", "/v1/limits?message=x", "limits:\n  - {key: 'a', limit: 100rps}\n  - {key: 'b', limt: 1/s}\n", "If-Match", `"0"`)
	var p reply.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil || len(p.Mistakes) < 2 || p.Mistakes[0].Source == "" {
		t.Errorf("each mistake has a place: %s", answer)
	}
	s.must(t, 422, `algorithm`, "PUT", "/v1/limits?message=x", "limits: [{key: a, limit: 1/s, algorithm: elastics}]", "If-Match", `"0"`)
	s.must(t, 201, `"version":1`, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	second := strings.Replace(firstText, "100/s", "200/s", 1)
	s.must(t, 200, `"changes":[{"kind":"changed","section":"limits","name":"orders:*"`, "POST", "/v1/limits/check", second)
	s.must(t, 200, `100/s`, "PUT", "/v1/limits?dry_run&message=x", second, "If-Match", `"1"`)
	odd := strings.Replace(second, "limits:", "limits:\n  - {key: 'оrders:*', limit: 5/s, algorithm: elastic}", 1) // begins with a Cyrillic letter
	for _, ask := range [][2]string{{"POST", "/v1/limits/check"}, {"PUT", "/v1/limits?dry_run&message=x"}} {
		if answer := s.must(t, 200, `beside Latin letters`, ask[0], ask[1], odd, "If-Match", `"1"`); strings.Count(answer, `"warnings":[{"line":2,`) != 1 {
			t.Errorf("a likely mistake has its place: %s", answer)
		}
	}
	s.must(t, 200, `"version":1`, "GET", "/v1/limits", "")
	s.must(t, 201, `"version":2`, "PUT", "/v1/limits?message=the+sale", second, "If-Match", `"1"`)
	s.must(t, 412, `"newest":2`, "PUT", "/v1/limits?message=late", firstText, "If-Match", `"1"`)
	s.must(t, 200, `"changes":[]`, "PUT", "/v1/limits?message=again", second, "If-Match", `"2"`)
	s.must(t, 400, `which version`, "POST", "/v1/limits/rollback", "", "If-Match", `"2"`)
	s.must(t, 404, `no such version`, "POST", "/v1/limits/rollback?to=9", "", "If-Match", `"2"`)
	s.must(t, 412, `"newest":2`, "POST", "/v1/limits/rollback?to=1", "", "If-Match", `"1"`)
	s.must(t, 201, `"version":3`, "POST", "/v1/limits/rollback?to=1", "", "If-Match", `"2"`)
	history := s.must(t, 200, `roll back to version 1`, "GET", "/v1/limits/history", "")
	var all struct{ Versions []versions.Version }
	if err := json.Unmarshal([]byte(history), &all); err != nil || len(all.Versions) != 3 || all.Versions[1].Message != "the sale" || all.Versions[1].Author != "root" || all.Versions[0].Text != "" {
		t.Errorf("%s", history)
	}
	if s.must(t, 200, `"version":1`, "GET", "/v1/limits/history?n=1&before=2", ""); strings.Count(history, `"in_force":true`) != 2 {
		t.Errorf("versions 1 and 3 are in force: %s", history)
	}
	s.must(t, 200, `200/s`, "GET", "/v1/limits/history/2", "")
	_, _, header := s.ask(t, "root-token", "GET", "/v1/limits", "")
	if status, _, _ := s.ask(t, "root-token", "GET", "/v1/limits", "", "If-None-Match", header.Get("ETag")); status != 304 {
		t.Errorf("a text that is known is sent again: %d", status)
	}
	if log := s.log.String(); strings.Count(log, "the limits were changed") != 3 || !strings.Contains(log, "operator=root") || !strings.Contains(log, "a change of the limits was refused") {
		t.Errorf("the log:\n%s", log)
	}
	s.must(t, 200, "stored version 3", "GET", "/v1/events?past", "")
}

// A change goes by steps, each of which sends the same text on top of the step before.
func TestAChangeGoesBySteps(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	wanted := strings.Replace(firstText, "50/s", "20/s", 1)
	s.must(t, 201, `limit 50/s → 20/s, burst 50 → 20, enforce unset → 10%"}]`, "PUT", "/v1/limits?message=x&enforce=10", wanted, "If-Match", `"1"`)
	s.must(t, 200, `enforce 10% → 50%"}]`, "PUT", "/v1/limits?message=x&enforce=50&dry_run", wanted, "If-Match", `"2"`)
	s.must(t, 201, `enforce 10% → 50%"}]`, "PUT", "/v1/limits?message=x&enforce=50", wanted, "If-Match", `"2"`)
	s.must(t, 201, `enforce 50% → unset"}]`, "PUT", "/v1/limits?message=x&enforce=100", wanted, "If-Match", `"3"`)
	s.must(t, 422, `did you mean 20/s?`, "PUT", "/v1/limits?message=x&enforce=10", strings.Replace(firstText, "50/s", "20rps", 1), "If-Match", `"4"`)
	s.must(t, 201, `enforce unset → 10%`, "PUT", "/v1/limits?message=x&enforce=10", firstText, "If-Match", `"4"`)
	for _, percent := range []string{"0", "-1", "101", "NaN", "x"} {
		s.must(t, 400, "write a percentage", "PUT", "/v1/limits?message=x&enforce="+percent, wanted, "If-Match", `"5"`)
	}
}

// A request that its sender may have meant otherwise is refused, and changes nothing.
func TestWhatCouldBeMeantOtherwiseIsRefused(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	wanted := strings.Replace(firstText, "50/s", "20/s", 1)
	for _, tt := range []struct{ query, want string }{
		{"message=x&enforce=10%", "write % as %25"},
		{"message=x;y", "and ; as %3B"},
		{"message=x&enfore=10", "unknown parameter \\\"enfore\\\": use message, enforce, dry_run"},
		{"message=x&enforce=10&enforce=100", "enforce is there twice"},
		{"message=x&dry_run=maybe", "write true or false"},
	} {
		s.must(t, 400, tt.want, "PUT", "/v1/limits?"+tt.query, wanted, "If-Match", `"1"`)
	}
	s.must(t, 400, "use text", "GET", "/v1/limits?version=7", "")
	s.must(t, 400, "this request has none", "GET", "/v1/cluster?version=7", "")
	for _, tag := range []string{`"01"`, `"+1"`, `"1-"`, `"-1"`, `""1""`, `"1`, `*`, `"1",`, `"1" "2"`, `w/"1"`, `W/1"`, `"9223372036854775808"`, `"1 "`} {
		s.must(t, 400, "is no version", "PUT", "/v1/limits?message=x", wanted, "If-Match", tag)
	}
	s.must(t, 200, `"version":1`, "GET", "/v1/limits", "")
	s.must(t, 200, `20/s`, "PUT", "/v1/limits?message=x&dry_run=true", wanted, "If-Match", `"1"`)
	s.must(t, 201, `"version":2`, "PUT", "/v1/limits?message=x&dry_run=false", wanted, "If-Match", `"1"`)
}

// A proxy that compresses an answer makes its tag weak, and a program may name several versions.
func TestTagsMayBeWeakAndSeveral(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	_, _, header := s.ask(t, "root-token", "GET", "/v1/limits", "")
	tag := header.Get("ETag")
	for _, known := range []string{"W/" + tag, `"7", ` + tag, `W/"7",W/` + tag, "*"} {
		s.must(t, 304, ``, "GET", "/v1/limits", "", "If-None-Match", known)
	}
	s.must(t, 200, `"version":1`, "GET", "/v1/limits", "", "If-None-Match", `"7", W/"8"`)
	s.must(t, 412, `"newest":1`, "PUT", "/v1/limits?message=x", "limits: []", "If-Match", `"7", W/"8"`)
	for _, seen := range []string{"W/" + tag, `"7", ` + tag, `W/"7",W/"1"`} {
		s.must(t, 200, `"removed"`, "PUT", "/v1/limits?message=x&dry_run", "limits: []", "If-Match", seen)
	}
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/v1/limits?message=x", strings.NewReader("limits: []"))
	r.Header = http.Header{"Authorization": {"Bearer root-token"}, "If-Match": {`"7"`, tag}}
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 201 {
		t.Errorf("two fields If-Match: %d %s", w.Code, w.Body)
	}
}

// One rule is changed, added and taken away, and the rest of the text stays as it is.
func TestOneRule(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", "# ours\n"+firstText, "If-Match", `"0"`)
	s.must(t, 201, `50/s → 70/s`, "PUT", "/v1/limits/rule?key=billing:*&message=more", `{"limit": "70/s", "max_keys": 9}`, "If-Match", `"1"`)
	s.must(t, 201, `added`, "PUT", "/v1/limits/rule?key=new&message=more", `{"limit": "1/s", "shared": null, "algorithm": "even"}`, "If-Match", `"2"`)
	s.must(t, 201, `removed`, "DELETE", "/v1/limits/rule?key=new&message=less", "", "If-Match", `"3"`)
	s.must(t, 404, `no rule`, "DELETE", "/v1/limits/rule?key=new&message=less", "", "If-Match", `"4"`)
	s.must(t, 422, `mistakes`, "PUT", "/v1/limits/rule?key=new&message=x", `{"limit": "1 per second"}`, "If-Match", `"4"`)
	s.must(t, 422, `no field \"burts\" to remove: did you mean burst?`, "PUT", "/v1/limits/rule?key=billing:*&message=x", `{"burts": null}`, "If-Match", `"4"`)
	s.must(t, 400, `send fields`, "PUT", "/v1/limits/rule?key=new&message=x", `[]`, "If-Match", `"4"`)
	s.must(t, 400, `as a text`, "PUT", "/v1/limits/rule?key=new&message=x", `{"limit": [1]}`, "If-Match", `"4"`)
	s.must(t, 400, `which rule`, "DELETE", "/v1/limits/rule?message=x", "", "If-Match", `"4"`)
	if status, _, _ := s.ask(t, "orders-token", "PUT", "/v1/limits/rule?key=billing:*&message=x", `{"limit": "1/s"}`, "If-Match", `"4"`); status != 403 {
		t.Errorf("another team's rule: %d", status)
	}
	var v versions.Version
	if err := json.Unmarshal([]byte(s.must(t, 200, "", "GET", "/v1/limits", "")), &v); err != nil || !strings.HasPrefix(v.Text, "# ours\n") || strings.Contains(v.Text, "new") {
		t.Errorf("%+v, %v", v, err)
	}
}

// A database that is replaced begins anew with version 1. Who has seen version 1 of the old one
// changes nothing in the new one with its ETag, and is shown the new one.
func TestAnETagIsOfOneDatabase(t *testing.T) {
	old, other := start(t, rights), start(t, rights)
	old.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	other.must(t, 201, ``, "PUT", "/v1/limits?message=first", "limits: []", "If-Match", `"0"`)
	_, _, header := old.ask(t, "root-token", "GET", "/v1/limits", "")
	seen := header.Get("ETag")
	other.must(t, 412, `"newest":1`, "PUT", "/v1/limits?message=x", firstText, "If-Match", seen)
	other.must(t, 412, `was replaced`, "PUT", "/v1/limits/rule?key=a&message=x", `{"limit": "1/s"}`, "If-Match", seen)
	other.must(t, 200, `limits: []`, "GET", "/v1/limits", "", "If-None-Match", seen)
	old.must(t, 304, ``, "GET", "/v1/limits", "", "If-None-Match", seen)
	_, _, header = old.ask(t, "root-token", "PUT", "/v1/limits?message=less", "limits: []", "If-Match", seen)
	old.must(t, 201, `"version":3`, "PUT", "/v1/limits?message=more", firstText, "If-Match", header.Get("ETag"))
	other.must(t, 201, `"version":2`, "PUT", "/v1/limits?message=only+the+number", firstText, "If-Match", `"1"`)
	other.must(t, 400, `is no version`, "PUT", "/v1/limits?message=x", firstText, "If-Match", `"-1"`)
}

// An answer says whether the version is in force, and its ETag changes with that. In If-Match it is
// the same version.
func TestAnETagSaysWhetherAVersionIsInForce(t *testing.T) {
	s := start(t, rights)
	_, _, made := s.ask(t, "root-token", "PUT", "/v1/limits?message=first", "limits: []", "If-Match", `"0"`)
	_, _, waits := s.ask(t, "root-token", "GET", "/v1/limits", "")
	if made.Get("ETag") != waits.Get("ETag") {
		t.Errorf("stored as %s, read as %s", made.Get("ETag"), waits.Get("ETag"))
	}
	s.must(t, 304, ``, "GET", "/v1/limits", "", "If-None-Match", waits.Get("ETag"))
	snapshot, err := dynamicconfig.Parse("limits", []byte("limits: []"))
	if err == nil {
		err = s.Limits.Set(snapshot)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.must(t, 200, `"in_force":true`, "GET", "/v1/limits", "", "If-None-Match", waits.Get("ETag"))
	_, _, now := s.ask(t, "root-token", "GET", "/v1/limits", "")
	s.must(t, 304, ``, "GET", "/v1/limits", "", "If-None-Match", now.Get("ETag"))
	s.must(t, 201, `"version":2`, "PUT", "/v1/limits?message=x", firstText, "If-Match", waits.Get("ETag"))
}

// The fields of a rule are what each reader of JSON takes them for, and a number is stored as it
// was written.
func TestFieldsOfARuleAreReadInOneWay(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	for body, says := range map[string]string{
		`{"limit": "70/s", "limit": "80/s"}`:      `there twice`,
		`{"limit": "70/s"} {"limit": "80/s"}`:     `send fields`,
		`{"limit": "70/s"} and more`:              `send fields`,
		`{"limit": "70/s"`:                        `send fields`,
		`{"limit": "70/s", "l\u0069mit": "80/s"}`: `there twice`,
		`null`: `send fields`,
		`{}`:   `send fields`,
		``:     `send fields`,
	} {
		s.must(t, 400, says, "PUT", "/v1/limits/rule?key=billing:*&message=x", body, "If-Match", `"1"`)
	}
	s.must(t, 201, `2000000`, "PUT", "/v1/limits/rule?key=billing:*&message=x", `{"max_keys": 2000000}`+"\n", "If-Match", `"1"`)
}

// A rule that changes its algorithm goes from mode to mode, as the counts allow.
func TestAMigrationIsJudged(t *testing.T) {
	s := start(t, rights)
	text := "limits:\n  - {key: \"orders:*\", limit: 100/s, migrate: {from: even, to: elastic, mode: old-shadow-new}} # slowly\n"
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", text, "If-Match", `"0"`)
	snapshot, err := dynamicconfig.Parse("limits", []byte(text))
	if err == nil {
		err = s.Limits.Set(snapshot)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		both, old, new int64
		want           string
	}{
		{10, 0, 0, `"verdict":"wait","because":"only 10 tokens were compared in this mode so far, and 1000 are enough"`},
		{9990, 10, 0, `"verdict":"advance","because":"0.10% of 10000 tokens were answered differently: elastic would reject 10 that even allows, and allow 0 that even rejects"`},
		{980, 0, 20, `"verdict":"advance","because":"2.00% of 1000 tokens`},
		{900, 50, 50, `"verdict":"back"`}, // another key is allowed more
	} {
		s.Compare = func(context.Context) ([]migrate.Compared, []string) {
			return []migrate.Compared{
				{Divergence: stage.Divergence{Both: tt.both, OnlyOld: tt.old}, Key: "orders:a", Rule: "orders:*", Host: "here"},
				{Divergence: stage.Divergence{OnlyNew: tt.new}, Key: "orders:b", Rule: "orders:*", Host: "there"},
				{Divergence: stage.Divergence{OnlyNew: 1e6}, Key: "other", Rule: "other", Host: "there"},
			}, nil
		}
		s.renew()
		s.must(t, 200, tt.want, "GET", "/v1/migrations", "")
	}
	// A key over its limit, of which hosts are allowed other events, and as many in all.
	s.Compare = func(context.Context) ([]migrate.Compared, []string) {
		return []migrate.Compared{
			{Divergence: stage.Divergence{Both: 400, OnlyOld: 205, Neither: 195}, Key: "orders:a", Rule: "orders:*", Host: "here"},
			{Divergence: stage.Divergence{Both: 400, OnlyNew: 200}, Key: "orders:a", Rule: "orders:*", Host: "there"},
		}, nil
	}
	s.renew()
	s.must(t, 200, `"verdict":"wait","because":"28.93% of 1400 tokens were answered differently: elastic would reject 205 that even allows, and allow 200 that even rejects: but both admit about as much of each key`, "GET", "/v1/migrations", "")
	// Keys that are not in use any more count, and are not listed.
	s.Compare = func(context.Context) ([]migrate.Compared, []string) {
		return []migrate.Compared{{Divergence: stage.Divergence{Both: 1990, OnlyOld: 10}, Key: "", Rule: "orders:*", Host: "here"}}, nil
	}
	s.renew()
	s.must(t, 200, `"verdict":"advance","because":"0.50% of 2000 tokens were answered differently: elastic would reject 10 that even allows, and allow 0 that even rejects","keys":[]`, "GET", "/v1/migrations", "")
	s.must(t, 400, "there is no mode", "POST", "/v1/migrations/step?rule=orders:*&mode=newest", "", "If-Match", `"1"`)
	s.must(t, 404, "changes its algorithm", "POST", "/v1/migrations/step?rule=other&mode=new", "", "If-Match", `"1"`)
	s.must(t, 201, "", "POST", "/v1/migrations/step?rule=orders:*&mode=new-shadow-old", "", "If-Match", `"1"`)
	s.must(t, 200, `mode: new-shadow-old}} # slowly`, "GET", "/v1/limits", "")
	if status, _, _ := s.ask(t, "reader-token", "POST", "/v1/migrations/step?rule=orders:*&mode=new", "", "If-Match", `"2"`); status != 403 {
		t.Errorf("a reader steps: %d", status)
	}
}

// Who has which rights, and who shows nothing, at each path.
func TestWhoMayDoWhat(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	for _, key := range []string{"orders:a", "billing:b", "people:alice"} {
		s.must(t, 200, ``, "GET", "/v1/explain?key="+key, "") // which brings no key to life
	}
	own, others := strings.Replace(firstText, "100/s", "1/s", 1), strings.Replace(firstText, "50/s", "1/s", 1)
	wider := strings.Replace(firstText, `"orders:*"`, `"order*"`, 1)
	added := firstText + "  - {key: \"orders:special\", limit: 1/s, algorithm: even}\n"
	turned := "limits:\n  - {key: \"billing:*\", limit: 50/s, algorithm: even}\n  - {key: \"orders:*\", limit: 100/s, algorithm: even}\n  - {key: \"people:*\", limit: 5/s, algorithm: even, private: true}\n"
	unmatched := firstText + "unmatched: deny\n"
	for _, tt := range []struct {
		token, method, path, body string
		status                    int
	}{
		{"", "GET", "/v1/limits", "", 401},
		{"wrong", "GET", "/v1/limits", "", 401},
		{"program-token", "GET", "/v1/limits", "", 403},
		{"program-token", "GET", "/v1/events?past", "", 403},
		{"reader-token", "GET", "/v1/limits", "", 200},
		{"reader-token", "GET", "/v1/keys", "", 200},
		{"reader-token", "GET", "/v1/me", "", 200},
		{"reader-token", "GET", "/v1/limits/status", "", 200},
		{"reader-token", "GET", "/v1/keys?sort=used&like=o", "", 200},
		{"reader-token", "GET", "/v1/keys?sort=size", "", 400},
		{"reader-token", "PUT", "/v1/limits?dry_run", own, 403},
		{"reader-token", "POST", "/v1/limits/rollback?to=1&dry_run", "", 403},
		{"orders-token", "PUT", "/v1/limits?dry_run", own, 200},
		{"orders-token", "PUT", "/v1/limits?dry_run", added, 200},
		{"orders-token", "PUT", "/v1/limits?dry_run", others, 403},
		{"orders-token", "PUT", "/v1/limits?dry_run", wider, 403},
		{"orders-token", "PUT", "/v1/limits?dry_run", turned, 403},
		{"orders-token", "PUT", "/v1/limits?dry_run", unmatched, 403},
		{"orders-token", "PUT", "/v1/limits?dry_run", "limits: []", 403},
		{"orders-token", "GET", "/v1/explain?key=orders:a", "", 200},
		{"orders-token", "GET", "/v1/explain?key=billing:a", "", 403},
		{"orders-token", "PUT", "/v1/trace?key=billing:a", "", 403},
		{"orders-token", "PUT", "/v1/limits?dry_run", overridden("orders:*"), 200},
		{"orders-token", "PUT", "/v1/limits?dry_run", overridden("billing:*"), 403},
		{"orders-token", "PUT", "/v1/limits?dry_run", strings.Replace(overridden("x"), `key: "x"`, "all: true", 1), 403},
		{"orders-token", "POST", "/v1/keys/reset?key=orders:a*", "", 200},
		{"orders-token", "POST", "/v1/keys/reset?key=billing:a", "", 403},
		{"reader-token", "POST", "/v1/keys/reset?key=orders:a", "", 403},
		{"root-token", "POST", "/v1/keys/reset", "", 400},
		{"root-token", "PUT", "/v1/limits?dry_run", unmatched, 200},
		{"root-token", "PUT", "/v1/trace?key=billing:a", "", 200},
		{"root-token", "DELETE", "/v1/trace?key=billing:a", "", 200},
		{"root-token", "GET", "/v1/cluster", "", 200},
		{"", "GET", "/v1/openapi.json", "", 200},
	} {
		if status, answer, _ := s.ask(t, tt.token, tt.method, tt.path, tt.body, "If-Match", `"1"`); status != tt.status {
			t.Errorf("%q %s %s: %d %s; want %d\n%s", tt.token, tt.method, tt.path, status, answer, tt.status, tt.body)
		}
	}
	status, answer, _ := s.ask(t, "orders-token", "GET", "/v1/limits/rules", "")
	if status != 200 || !strings.Contains(answer, "orders:*") || strings.Contains(answer, "billing") {
		t.Errorf("the rules: %d %s", status, answer)
	}
}

// The pattern of a rule whose keys are decided alone has no decisions of its own: an operator who traces
// it waits for nothing. What is traced already can always be given up.
func TestThePatternOfManyBucketsIsNotTraced(t *testing.T) {
	s := start(t, rights)
	s.must(t, 400, "name one of these keys", "PUT", "/v1/trace?key=orders:*", "")
	for _, key := range []string{"orders:a", "unknown*"} {
		s.must(t, 200, "failed", "PUT", "/v1/trace?key="+key, "")
	}
	s.must(t, 200, "failed", "DELETE", "/v1/trace?key=orders:*", "")
}

// An operator who names the pattern of a rule wants all of its keys reset, and one who misspells
// a key wants another: neither may read that a bucket is full again.
func TestAResetOfWhatHasNoBucketIsRefused(t *testing.T) {
	s := start(t, rights)
	s.must(t, 400, "name one of these keys", "POST", "/v1/keys/reset?key=orders:*", "")
	s.must(t, 404, "no rule matches the key oders:a", "POST", "/v1/keys/reset?key=oders:a", "")
	if text := s.log.String(); strings.Contains(text, "a bucket was reset") || strings.Count(text, "a reset was refused") != 2 {
		t.Errorf("the log: %s", text)
	}
}

// overridden is firstText with an override of key.
func overridden(key string) string {
	return firstText + "\noverrides: [{key: \"" + key + "\", limit: 2x, until: 2099-11-23T05:00:00Z, author: ada, reason: the sale}]\n"
}

// headgate limits override removes overrides that have ended, those of others too. That may not
// keep an operator from an override of a rule of their own.
// The log has each change that an operator was refused, and each reset, with who, from where and
// why: none is withheld because there was one like it.
func TestEachRefusalIsInTheLog(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, "", "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	for _, why := range []string{"one", "two", "three"} {
		for method, path := range map[string]string{"PUT": "/v1/limits?message=", "DELETE": "/v1/limits/rule?key=billing:*&message="} {
			if status, answer, _ := s.ask(t, "orders-token", method, path+why, "limits: []", "If-Match", `"1"`); status != 403 {
				t.Errorf("%s: %d %s", method, status, answer)
			}
		}
		if n := strings.Count(s.log.String(), "message="+why+" "); n != 2 {
			t.Errorf("%s: %d lines in\n%s", why, n, s.log)
		}
		if status, answer, _ := s.ask(t, "reader-token", "POST", "/v1/keys/reset?key=billing:"+why, ""); status != 403 || !strings.Contains(s.log.String(), "key=billing:"+why+" ") {
			t.Errorf("%s: %d %s in\n%s", why, status, answer, s.log)
		}
	}
}

// The one key whose name is that of the bucket of a shared rule is no way to all keys of the rule,
// for an operator who may change keys of one more letter only.
func TestAnOverrideOfASharedBucketTakesTheRightToItsRule(t *testing.T) {
	s := start(t, `callers: [{name: letters, tokens: ["`+callers.Hash("letters-token")+`"], see: ["*"], change: ["batch:?"]},
  {name: root, tokens: ["`+callers.Hash("root-token")+`"], see: ["*"], change: ["*"]}]`)
	const shared = "limits:\n  - {key: 'batch:*', limit: 50/s, algorithm: even, shared: true}\n"
	s.must(t, 201, "", "PUT", "/v1/limits?message=first", shared, "If-Match", `"0"`)
	for key, want := range map[string]int{`batch:\*`: 403, "batch:*": 403, "batch:a": 200} {
		for _, limit := range []string{"1000x", "bypass"} {
			text := shared + fmt.Sprintf("overrides:\n  - {key: '%s', limit: %s, until: 2099-01-01T00:00:00Z, author: ada, reason: r}\n", key, limit)
			if status, answer, _ := s.ask(t, "letters-token", "PUT", "/v1/limits?dry_run", text, "If-Match", `"1"`); status != want {
				t.Errorf("%s, %s: %d %s", key, limit, status, answer)
			}
		}
	}
}

func TestAnEndedOverrideOfOthersIsRemovedByWhoeverMakesAChange(t *testing.T) {
	s := start(t, rights)
	ended := strings.Replace(overridden("billing:*"), "2099-", "2020-", 1)
	s.must(t, 201, "", "PUT", "/v1/limits?message=first", ended, "If-Match", `"0"`)
	for name, tt := range map[string]struct {
		text   string
		status int
	}{
		"beside an override of a rule of their own": {overridden("orders:*"), 200},
		"beside an override of a rule of others":    {overridden("people:*"), 403},
		"alone":                                     {firstText, 403},
	} {
		if status, answer, _ := s.ask(t, "orders-token", "PUT", "/v1/limits?dry_run", tt.text, "If-Match", `"1"`); status != tt.status {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	// Of the override and the bypass of one key, only the override has ended.
	of := func(key, limit, until string) string {
		return fmt.Sprintf("  - {key: %q, limit: %s, until: %s-11-23T05:00:00Z, author: ada, reason: r}\n", key, limit, until)
	}
	over, bypass, mine := of("billing:*", "2x", "2020"), of("billing:*", "bypass", "2099"), of("orders:*", "2x", "2099")
	text := func(all ...string) string { return firstText + "overrides:\n" + strings.Join(all, "") }
	s.must(t, 201, "", "PUT", "/v1/limits?message=both", text(over, bypass), "If-Match", `"1"`)
	for changed, want := range map[string]int{
		text(bypass, mine): 200,
		text(over, mine):   403,
		text(mine):         403,
		text(of("billing:*", "bypass", "2098"), mine):       403,
		text(over, of("billing:*", "bypass", "2098"), mine): 403,
		text(of("billing:*", "0.1x", "2099"), bypass, mine): 403,
	} {
		if status, answer, _ := s.ask(t, "orders-token", "PUT", "/v1/limits?dry_run", changed, "If-Match", `"2"`); status != want {
			t.Errorf("%d %s, want %d for\n%s", status, answer, want, changed)
		}
	}
	s.must(t, 201, "", "PUT", "/v1/limits?message=holds", overridden("billing:*"), "If-Match", `"2"`)
	if status, answer, _ := s.ask(t, "orders-token", "PUT", "/v1/limits?dry_run", overridden("orders:*"), "If-Match", `"3"`); status != 403 {
		t.Errorf("one that holds: %d %s", status, answer)
	}
}

func TestAResetIsInTheLogAndAnEvent(t *testing.T) {
	s := start(t, rights)
	s.must(t, 200, `{"failed":{}}`, "POST", "/v1/keys/reset?key=orders:a", "")
	if text := s.log.String(); !strings.Contains(text, "a bucket was reset") || !strings.Contains(text, "key=orders:a") {
		t.Errorf("the log: %s", text)
	}
	if status, answer, _ := s.ask(t, "root-token", "GET", "/v1/events?past", ""); status != 200 || !strings.Contains(answer, "made the bucket of orders:a full again") {
		t.Errorf("the events: %d %s", status, answer)
	}
}

// Whatever comes in, the answer says what is wrong with it, and nothing changes.
func TestBadInput(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	deep := "limits: " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for name, tt := range map[string]struct {
		method, path, body, match string
		status                    int
	}{
		"broken YAML":         {"PUT", "/v1/limits?message=x", "limits: [", `"1"`, 422},
		"no YAML":             {"PUT", "/v1/limits?message=x", "\x00\xff\xfe", `"1"`, 422},
		"nothing":             {"PUT", "/v1/limits?message=x", "", `"1"`, 422},
		"deep":                {"PUT", "/v1/limits?message=x", deep, `"1"`, 422},
		"large":               {"PUT", "/v1/limits?message=x", strings.Repeat("# large\n", 50<<20/8), `"1"`, 413},
		"a long line":         {"PUT", "/v1/limits?message=x", "limits: [" + strings.Repeat("{key: a, limit: 1rps}, ", 40_000) + "]", `"1"`, 422},
		"a bad glob":          {"PUT", "/v1/limits?message=x", "limits: [{key: 'a[', limit: 1/s}]", `"1"`, 422},
		"another letter":      {"PUT", "/v1/limits?message=x", "limits: [{kеy: a, limit: 1/s}]", `"1"`, 422},
		"aliases":             {"PUT", "/v1/limits?message=x", "a: &a [1]\nb: *a", `"1"`, 422},
		"the wrong version":   {"PUT", "/v1/limits?message=x", "limits: []", `"one"`, 400},
		"a version below 0":   {"PUT", "/v1/limits?message=x", "limits: []", `"-1"`, 400},
		"a replayed version":  {"PUT", "/v1/limits?message=x", "limits: []", `"0"`, 412},
		"a version to come":   {"PUT", "/v1/limits?message=x", "limits: []", `"99"`, 412},
		"a control character": {"PUT", "/v1/limits?message=x%07", "limits: []", `"1"`, 400},
		"a long message":      {"PUT", "/v1/limits?message=" + strings.Repeat("x", 5000), "limits: []", `"1"`, 400},
		"a path":              {"GET", "/v1/limits/history/..%2f..%2fetc", "", "", 400},
		"a huge number":       {"GET", "/v1/limits/history/99999999999999999999", "", "", 400},
		"no number":           {"GET", "/v1/limits/history?before=x", "", "", 400},
		"too many":            {"GET", "/v1/limits/history?n=100000", "", "", 400},
		"too few":             {"GET", "/v1/keys?n=0", "", "", 400},
		"no key":              {"GET", "/v1/explain", "", "", 400},
		"a long key":          {"GET", "/v1/explain?key=" + strings.Repeat("k", 1025), "", "", 400},
		"another method":      {"DELETE", "/v1/limits", "", "", 405},
		"another path":        {"GET", "/v1/nothing", "", "", 404},
		"a login of garbage":  {"POST", "/v1/login", "{", "", 400},
	} {
		fields := []string{}
		if tt.match != "" {
			fields = []string{"If-Match", tt.match}
		}
		status, answer, _ := s.ask(t, "root-token", tt.method, tt.path, tt.body, fields...)
		if status != tt.status {
			t.Errorf("%s: %d %.300s; want %d", name, status, answer, tt.status)
		}
		if len(answer) > 20_000 {
			t.Errorf("%s: the answer has %d bytes", name, len(answer))
		}
	}
	s.must(t, 200, `"version":1`, "GET", "/v1/limits", "")
	if _, answer, header := s.ask(t, "root-token", "OPTIONS", "/v1/limits", ""); header.Get("Allow") != "GET, HEAD, PUT" || !strings.Contains(answer, "use GET, HEAD, PUT") {
		t.Errorf("another method is told %q, %s", header.Get("Allow"), answer)
	}
}

// Of changes at the same time, each is made on top of what its author has seen.
func TestEditorsRace(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	const editors, each = 2, 20
	var all sync.WaitGroup
	for e := range editors {
		all.Go(func() {
			for i := 0; i < each; {
				_, _, header := s.ask(t, "root-token", "GET", "/v1/limits", "")
				text := fmt.Sprintf("limits: [{key: 'k%d', limit: %d/s, algorithm: even}]", e, i+1)
				status, answer, _ := s.ask(t, "root-token", "PUT", fmt.Sprintf("/v1/limits?message=%d+%d", e, i), text, "If-Match", header.Get("ETag"))
				switch status {
				case 201:
					i++
				case 412:
				default:
					t.Errorf("%d %s", status, answer)
					return
				}
			}
		})
	}
	all.Wait()
	versions, err := s.Store.List(t.Context(), 0, 100)
	if err != nil || len(versions) != 1+editors*each {
		t.Fatalf("%d versions, %v", len(versions), err)
	}
	next := map[string]int{}
	for i := len(versions) - 2; i >= 0; i-- {
		editor, n, _ := strings.Cut(versions[i].Message, " ")
		if n != fmt.Sprint(next[editor]) {
			t.Errorf("version %d: %s", versions[i].Number, versions[i].Message)
		}
		next[editor]++
	}
}

// slowBody is a body that says when it is begun to be read, and goes on when rest is closed.
type slowBody struct {
	begun chan<- struct{}
	rest  <-chan struct{}
	text  io.Reader
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.begun != nil {
		b.begun <- struct{}{}
		b.begun = nil
		<-b.rest
	}
	return b.text.Read(p)
}

// Texts of limits take many times their size in memory while they are looked at, so one large one
// is read at a time, however many an operator sends at once; and small ones do not wait for it.
func TestOneLargeTextIsReadAtATime(t *testing.T) {
	s := start(t, rights)
	const senders = 20
	begun, rest, answered := make(chan struct{}, senders), make(chan struct{}), make(chan int)
	for i := range senders {
		length := int64(-1) // of a body that is sent in chunks
		if i%2 == 0 {
			length = large.Small + 1
		}
		go func() {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/limits/check", &slowBody{begun, rest, strings.NewReader("limits: []")})
			r.Header.Set("Authorization", "Bearer reader-token")
			r.ContentLength = length
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			answered <- w.Code
		}()
	}
	<-begun
	s.must(t, 200, "changes", "POST", "/v1/limits/check", "limits: []")
	if n := len(begun); n > 0 {
		t.Errorf("%d more are read meanwhile", n)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late := httptest.NewRequestWithContext(gone, "POST", "/", http.NoBody)
	late.ContentLength = large.Small + 1
	if _, err := s.turn.Wait(httptest.NewRecorder(), late, false); err == nil {
		t.Error("two are read at once, or one that nobody waits for")
	}
	close(rest)
	for range senders {
		if status := <-answered; status != 200 {
			t.Error(status)
		}
	}
}

// A change whose text is too slow to arrive is refused, and its sender is told: net/http ends the
// context of such a request, and answers 200 with nothing if nobody else answers.
func TestAChangeThatDoesNotArriveIsNotAnsweredAsDone(t *testing.T) {
	s := start(t, rights)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "PUT", "/v1/limits?message=slow", iotest.ErrReader(os.ErrDeadlineExceeded))
	r.ContentLength = 10
	r.Header.Set("Authorization", "Bearer root-token")
	r.Header.Set("If-Match", `"0"`)
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "did not arrive") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestGuessersAreSlowedDown(t *testing.T) {
	s := start(t, rights)
	wrong := 0
	for range 100 {
		status, _, _ := s.ask(t, "guess", "GET", "/v1/limits", "")
		if status == 401 {
			wrong++
		} else if status != 429 {
			t.Fatal(status)
		}
	}
	if wrong != 10 {
		t.Errorf("%d guesses were answered", wrong)
	}
	if status, _, _ := s.ask(t, "root-token", "GET", "/v1/limits", ""); status != 429 {
		t.Errorf("a guesser learns that a guess is right: %d", status)
	}
	if status, _, _ := s.ask(t, "", "POST", "/v1/login", `{"token": "root-token"}`); status != 429 {
		t.Errorf("and at the login: %d", status)
	}
}

// A browser keeps the token; pages of other sites cannot use it.
func TestBrowsersLogIn(t *testing.T) {
	s := start(t, rights)
	status, answer, header := s.ask(t, "", "POST", "/v1/login", `{"token": "root-token"}`)
	kept := header.Get("Set-Cookie")
	if status != 200 || !strings.Contains(answer, "root") || !strings.Contains(kept, "HttpOnly") || !strings.Contains(kept, "SameSite=Strict") {
		t.Fatalf("%d %s %s", status, answer, kept)
	}
	pair, _, _ := strings.Cut(kept, ";")
	if status, _, _ := s.ask(t, "", "GET", "/v1/limits", "", "Cookie", pair); status != 200 {
		t.Errorf("the cookie: %d", status)
	}
	for _, token := range []string{"wrong", "program-token"} {
		if status, _, _ := s.ask(t, "", "POST", "/v1/login", `{"token": "`+token+`"}`); status != 401 {
			t.Errorf("%s: %d", token, status)
		}
	}
	for _, field := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
		if status, _, _ := s.ask(t, "", "PUT", "/v1/limits?message=x", firstText, append(field, "Cookie", pair, "If-Match", `"0"`)...); status != 403 {
			t.Errorf("%v: %d", field, status)
		}
	}
	if _, _, header := s.ask(t, "", "POST", "/v1/logout", ""); !strings.Contains(header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("logged out: %v", header)
	}
	open := start(t, `anyone: {see: ["*"]}`)
	for host, want := range map[string]int{"127.0.0.1:9090": 200, "localhost:9090": 200, "[::1]:9090": 200, "evil.example": 403, "evil.example:9090": 403} {
		if status, _, _ := open.ask(t, "", "GET", "/v1/limits", "", "Host", host); status != want {
			t.Errorf("anyone at %s: %d", host, status)
		}
	}
}

// The keys that are nearest to their limits come first, and no others are looked at closely.
func TestKeysNearestToTheirLimitsComeFirst(t *testing.T) {
	s := start(t, rights)
	limits := s.Limits.Current()
	group := limiter.NewGroup(limits, 1)
	for key, cost := range map[string]int{"orders:a": 30, "orders:b": 90, "billing:c": 30, "people:d": 1, "orders:e": 1} {
		group.For(key).Charge(cost)
	}
	looked := 0
	s.Keys.InUse, s.Keys.Counts = group.Keys, group.Counts
	s.Keys.Look = func(key string) explain.Key {
		looked++
		return explain.Look(group, limits, 1, key)
	}
	s.renew()
	var page struct{ Keys []explain.Key }
	if err := json.Unmarshal([]byte(s.must(t, 200, "", "GET", "/v1/keys?sort=used&n=3", "")), &page); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range page.Keys {
		got = append(got, k.Key)
	}
	if want := []string{"orders:b", "billing:c", "orders:a"}; !slices.Equal(got, want) || looked != len(want) {
		t.Errorf("%v, and %d keys were looked at; want %v", got, looked, want)
	}
}

// Keys come in pages, and a private one is found by what is shown of it only.
func TestKeysComeInPages(t *testing.T) {
	s := start(t, rights)
	var keys []string
	for i := range 260 {
		keys = append(keys, fmt.Sprintf("orders:%03d", i))
	}
	s.Keys.InUse = func() []string { return append([]string{"people:alice"}, keys[:250]...) }
	s.Keys.Look = func(key string) explain.Key {
		return explain.Key{Key: s.Limits.Current().Shown(key), InUse: key != "orders:007" && !slices.Contains(keys[250:], key)}
	}
	// Some are owned here too, and ten are used by other hosts only.
	s.Keys.OwnedKeys = func() []string { return keys[200:260] }
	s.Keys.Owned = func(key string) []explain.Owned {
		if !slices.Contains(keys[200:260], key) {
			return nil
		}
		return []explain.Owned{{Hosts: []explain.AtOwner{{Host: "one"}, {Host: "program"}}}}
	}
	s.renew()
	seen, used, after := 0, 0, ""
	for pages := 0; ; pages++ {
		var page struct {
			Keys  []explain.Key
			Total int
			Next  string
		}
		if err := json.Unmarshal([]byte(s.must(t, 200, "", "GET", "/v1/keys?n=100&after="+after, "")), &page); err != nil || page.Total != 251 {
			t.Fatal(err, page.Total)
		}
		seen += len(page.Keys)
		for _, k := range page.Keys {
			if k.UsedBy == 2 {
				used++
			}
			if strings.Contains(k.Key, "alice") || strings.Contains(page.Next, "alice") {
				t.Errorf("a private key is shown: %+v", page)
			}
		}
		if after = page.Next; after == "" {
			if pages != 2 || seen != 260 || used != 60 {
				t.Errorf("%d keys in %d pages, %d of which are owned here", seen, pages+1, used)
			}
			break
		}
	}
	s.must(t, 200, `"keys":[]`, "GET", "/v1/keys?like=alice", "")
	if status, answer, _ := s.ask(t, "orders-token", "GET", "/v1/keys?n=1000", ""); status != 200 || strings.Contains(answer, "people") {
		t.Errorf("%d %.200s", status, answer)
	}
}

func TestEventsAreStreamed(t *testing.T) {
	s := start(t, rights)
	server := httptest.NewServer(s)
	defer server.Close()
	listen := func(last string) (*bufio.Scanner, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/events", http.NoBody)
		r.Header.Set("Authorization", "Bearer reader-token")
		r.Header.Set("Last-Event-ID", last)
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return bufio.NewScanner(answer.Body), func() {
			cancel()
			_ = answer.Body.Close()
		}
	}
	next := func(in *bufio.Scanner) (e events.Event) {
		for in.Scan() {
			if text, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(text), &e); err != nil {
					t.Fatal(err)
				}
				return e
			}
		}
		t.Fatal("the stream has ended", in.Err())
		return e
	}
	first, end := listen("")
	defer end()
	for i := range 3 {
		s.Events.Add(events.Event{Kind: "member", Text: fmt.Sprint(i)})
		if e := next(first); e.ID != int64(i+1) || e.Text != fmt.Sprint(i) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	second, endSecond := listen("2")
	defer endSecond()
	if e := next(second); e.ID != 3 {
		t.Errorf("a reader that comes back: %+v", e)
	}
	server.CloseClientConnections()
}

// The description has each path and method, and no other.
func TestTheDescriptionIsWhole(t *testing.T) {
	s := start(t, rights)
	var d struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(openapi, &d); err != nil {
		t.Fatal(err)
	}
	for path, methods := range d.Paths {
		for _, method := range []string{"get", "put", "post", "delete"} {
			r := httptest.NewRequestWithContext(t.Context(), strings.ToUpper(method), strings.Replace(path, "{version}", "1", 1), http.NoBody)
			_, pattern := s.mux.Handler(r)
			if _, described := methods[method]; described != (pattern != "/v1/") {
				t.Errorf("%s %s: described: %t, and it is %q", method, path, described, pattern)
			}
		}
	}
	for line := range strings.SplitSeq(pathsOfDoc(t), "\n") {
		if line != "" && d.Paths[line] == nil {
			t.Errorf("doc.go has %s, and the description has not", line)
		}
	}
}

func pathsOfDoc(t *testing.T) (paths string) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(doc)) {
		if fields := strings.Fields(line); len(fields) > 3 && strings.HasPrefix(fields[2], "/v1/") && fields[2] != "/v1/openapi.json" {
			paths += fields[2] + "\n"
		}
	}
	return paths
}

func FuzzChange(f *testing.F) {
	s := start(f, rights)
	s.Store = slowless{s.Store}
	s.renew()
	f.Add(firstText, `"0"`, "message")
	f.Add("limits: [", `7`, "\x00")
	f.Fuzz(func(t *testing.T, text, match, message string) {
		r := httptest.NewRequestWithContext(t.Context(), "PUT", "/v1/limits", strings.NewReader(text))
		q := r.URL.Query()
		q.Set("message", message)
		r.URL.RawQuery = q.Encode()
		r.Header.Set("Authorization", "Bearer root-token")
		r.Header.Set("If-Match", match)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= 500 {
			body, _ := io.ReadAll(w.Body)
			t.Errorf("%d %s", w.Code, body)
		}
	})
}

// slowless is a store that takes nothing.
type slowless struct{ history.Store }

func (slowless) Append(context.Context, history.Change) (history.Version, error) {
	return history.Version{Number: 1}, nil
}

func (slowless) Newest(context.Context) (history.Version, error) {
	return history.Version{}, history.ErrEmpty
}
