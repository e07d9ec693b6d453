// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge"
)

func TestMain(m *testing.M) { waittest.Main(m) }

const limits = `
defaults: {algorithm: even}
limits:
  - {key: "k*", limit: 10/s, burst: 20, max_keys: 3}
  - {key: patient, limit: 10/s, burst: 1, max_wait: 1s}
  - {key: queue, limit: 10/s, burst: 1, max_wait: 5s}
  - {key: hurry, limit: 10/s, burst: 1, max_wait: 100ms}
  - {key: debt, limit: 10/s, burst: 10, max_debt: 10s, max_cost: 50}
  - {key: "many:*", limit: 1/s, max_keys: 1}
  - {key: never, limit: 0/s}
  - {key: slow, limit: 1/h}
  - {key: large, limit: 1e12/s, burst: 1e12}
  - {key: slots, limit: 5 in-flight}
  - {key: soft, limit: 1/s, enforce: 0%}
  - {key: open, limit: 1/s, fallback: open, algorithm: elastic}
unmatched: deny
`

// halfway is a Random in the middle.
func halfway() float64 { return 0.5 }

func newAPI(t testing.TB, o Options) *API {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	if o.Random == nil {
		o.Random = halfway
	}
	return New(engine.New(limiter.NewGroup(s, 1), func() *dynamicconfig.Snapshot { return s }), o)
}

// call does one request, and checks the answer by the document.
func call(t testing.TB, a *API, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	if method == "POST" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	answer := w.Result()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	if answer.StatusCode != 405 && answer.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %s may be cached", method, path)
	}
	known := answer.StatusCode != 405 && !strings.Contains(string(text), "/v1/problems/not-found")
	if known {
		if err := readDocument(t).checkResponse(method, r.URL.Path, answer.StatusCode, answer.Header, text); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
	return answer
}

func text(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// fields has a line for each of the fields that tell of the limit.
func fields(h http.Header) string {
	var all []string
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
		if v := h.Get(name); v != "" {
			all = append(all, v)
		}
	}
	return strings.Join(all, " | ")
}

// Rows are one after the other, at one instant.
func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		for _, tc := range []struct {
			body   string
			status int
			want   string
			fields string
		}{
			{`{"key": "k"}`, 200, `{"allowed":true,"reason":"granted","cost":1,"wait_ms":0,"limit":10,"burst":20,"remaining":19}`, `"default";q=20;w=2 | "default";r=19;t=1`},
			{` {"key":"k","cost":19,"max_wait_ms":0} `, 200, `{"allowed":true,"reason":"granted","cost":19,"wait_ms":0,"limit":10,"burst":20,"remaining":0}`, `"default";q=20;w=2 | "default";r=0;t=2`},
			{`{"key": "k", "cost": 20}`, 429, `"reason":"limited","cost":20,"retry_after_ms":2250,"limit":10,"burst":20,"remaining":0}`, `"default";q=20;w=2 | "default";r=0;t=2 | 3`},
			{`{"key": "k", "cost": 21}`, 422, `"reason":"too-costly","cost":21,"limit":10,"burst":20,"remaining":0}`, `"default";q=20;w=2 | "default";r=0;t=2`},
			{`{"key": "k", "cost": 9223372036854775807}`, 422, `"reason":"too-costly","cost":9223372036854775807,`, `"default";q=20;w=2 | "default";r=0;t=2`},
			{`{"key": "k", "cost": 0}`, 400, `"reason":"invalid-cost","cost":0}`, ""},
			{`{"key": "k", "cost": -1}`, 400, `"reason":"invalid-cost","cost":-1}`, ""},
			{`{"key": ""}`, 400, `"type":"/v1/problems/invalid-key"`, ""},
			{`{"key": "` + strings.Repeat("x", 1025) + `"}`, 400, `"reason":"invalid-key"`, ""},
			{`{"key": "patient"}`, 200, `"wait_ms":0,"limit":10,"burst":1,"remaining":0}`, `"default";q=1;w=1 | "default";r=0;t=1`},
			{`{"key": "patient"}`, 429, `"reason":"limited","cost":1,"retry_after_ms":113,`, `"default";q=1;w=1 | "default";r=0;t=1 | 1`},
			{`{"key": "patient", "max_wait_ms": 100}`, 200, `"wait_ms":100,"limit":10,"burst":1,"remaining":-1}`, `"default";q=1;w=1 | "default";r=0;t=1`},
			{`{"key": "patient", "max_wait_ms": 199}`, 429, `"retry_after_ms":2,`, `"default";q=1;w=1 | "default";r=0;t=1 | 1`},
			{`{"key": "debt", "cost": 50}`, 200, `"wait_ms":0,"limit":10,"burst":10,"remaining":-40}`, `"default";q=10;w=1 | "default";r=0;t=5`},
			{`{"key": "debt", "max_wait_ms": 9223372036854775807}`, 200, `"wait_ms":4000,`, `"default";q=10;w=1 | "default";r=0;t=6`},
			{`{"key": "many:1"}`, 200, `"allowed":true`, `"default";q=1;w=1 | "default";r=0;t=1`},
			{`{"key": "many:2"}`, 429, `"reason":"too-many-keys","cost":1}`, ""},
			{`{"key": "other"}`, 404, `"reason":"unmatched","cost":1}`, ""},
			{`{"key": "never"}`, 429, `"reason":"limited","cost":1,"limit":0,"burst":0,"remaining":0}`, `"default";q=0 | "default";r=0`},
			{`{"key": "slow"}`, 200, `"allowed":true`, `"default";q=1;w=3600 | "default";r=0;t=3600`},
			{`{"key": "slow"}`, 429, `"retry_after_ms":4050000,`, `"default";q=1;w=3600 | "default";r=0;t=3600 | 4050`},
			{`{"key": "large"}`, 200, `"remaining":999999999999}`, `"default";q=1000000000000;w=1 | "default";r=999999999999;t=1`},
			{`{"key": "slots"}`, 422, `"reason":"in-flight"`, `"default";q=5;w=1 | "default";r=5;t=0`},
			{`{"key": "soft"}`, 200, `"reason":"granted"`, `"default";q=1;w=1 | "default";r=0;t=1`},
			{`{"key": "soft"}`, 200, `{"allowed":true,"reason":"soft","cost":1,"wait_ms":0,"limit":1,"burst":1,"remaining":0}`, `"default";q=1;w=1 | "default";r=0;t=1`},
			{`{"key": "open", "cost": 1000}`, 200, `{"allowed":true,"reason":"granted","cost":1000,"wait_ms":0}`, ""},
		} {
			r := call(t, a, "POST", "/v1/allow", tc.body)
			if got := text(t, r); r.StatusCode != tc.status || !strings.Contains(got, tc.want) || fields(r.Header) != tc.fields {
				t.Errorf("%.80s: %d %s\n%s\nwant %d %s\n%s", tc.body, r.StatusCode, fields(r.Header), got, tc.status, tc.fields, tc.want)
			}
		}
	})
}

// However long programs say that they would wait, a key has a queue of a second,
// or of what its rule says.
func TestWaitsAreFinite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		for _, tc := range []struct {
			path, key string
			last      string // the longest wait, in ms
			granted   int
		}{
			{"/v1/allow", "k", "1000", 30},       // no max_wait: a burst of 20, and a second at 10/s
			{"/v1/reserve", "kr", "1000", 30},    // as well
			{"/v1/allow", "patient", "1000", 11}, // max_wait 1s
			{"/v1/allow", "queue", "5000", 51},   // max_wait 5s
			{"/v1/allow", "hurry", "100", 2},     // max_wait 100ms
		} {
			granted, last := 0, ""
			for range 100 {
				r := call(t, a, "POST", tc.path, `{"key": "`+tc.key+`", "max_wait_ms": 9223372036854775807}`)
				body := text(t, r)
				if r.StatusCode == http.StatusOK {
					granted++
					_, last, _ = strings.Cut(body, `"wait_ms":`)
					last, _, _ = strings.Cut(last, ",")
				} else if r.StatusCode != http.StatusTooManyRequests {
					t.Errorf("%s: %d %s", tc.key, r.StatusCode, body)
				}
			}
			if granted != tc.granted || last != tc.last {
				t.Errorf("%s of %s: %d were granted, the last with a wait of %s ms; want %d, %s ms", tc.path, tc.key, granted, last, tc.granted, tc.last)
			}
		}
	})
}

// A client hears of the limit of the rule, not of the part that one of four hosts
// has of it; what is left is this host's.
func TestThePolicyIsTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := dynamicconfig.Parse("limits.yaml", []byte("limits: [{key: k, limit: 50/s, burst: 100, algorithm: even}]"))
		if err != nil {
			t.Fatal(err)
		}
		a := New(engine.New(limiter.NewGroup(s, 4), func() *dynamicconfig.Snapshot { return s }), Options{})
		for _, r := range []*http.Response{
			call(t, a, "POST", "/v1/allow", `{"key": "k"}`),
			call(t, a, "POST", "/v1/allow", `{"key": "k", "cost": 26}`),
			call(t, a, "POST", "/v1/reserve", `{"key": "k", "cost": 26}`),
			call(t, a, "GET", "/v1/keys/k", ""),
		} {
			if got, want := fields(r.Header), `"default";q=100;w=2 | "default";r=24;t=1`; !strings.HasPrefix(got, want) {
				t.Errorf("%d %s, want %s", r.StatusCode, got, want)
			}
		}
	})
}

// An answer about a key whose limit is 0 says so, and not to come back.
func TestALimitOfZeroIsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		look := func(want string) {
			t.Helper()
			if got := text(t, call(t, a, "GET", "/v1/keys/never", "")); !strings.Contains(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
		}
		look(`"limit":0,"burst":0,"remaining":0,"live":false`)
		for _, path := range []string{"/v1/allow", "/v1/reserve"} {
			r := call(t, a, "POST", path, `{"key": "never", "max_wait_ms": 500}`)
			got := text(t, r)
			for _, want := range []string{`"detail":"The limit of the key is 0: nothing is allowed until the rule changes."`, `"limit":0,"burst":0,"remaining":0`} {
				if r.StatusCode != 429 || !strings.Contains(got, want) {
					t.Errorf("%s: %d %s, want %s", path, r.StatusCode, got, want)
				}
			}
			if r.Header.Get("Retry-After") != "" || strings.Contains(got, "Retry-After") {
				t.Errorf("%s: %s %s", path, r.Header, got)
			}
		}
		look(`"limit":0,"burst":0,"remaining":0,"live":true`)
		if got := text(t, call(t, a, "POST", "/v1/charge", `{"key": "never"}`)); got != `{"cost":1,"limit":0,"burst":0,"remaining":0}` {
			t.Errorf("%s", got)
		}
	})
}

// A refusal advises to wait for longer only if that would help.
func TestRefusalsAdviseWhatHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		const larger, longest = "or ask with a larger max_wait_ms", "Events of the key wait at most "
		for _, tc := range []struct{ body, want string }{
			{`{"key": "hurry"}`, ""},
			{`{"key": "hurry"}`, larger},
			{`{"key": "hurry", "max_wait_ms": 50}`, larger},
			{`{"key": "hurry", "max_wait_ms": 100}`, ""},
			{`{"key": "hurry"}`, longest + "100 ms"},
			{`{"key": "hurry", "max_wait_ms": 9223372036854775807}`, longest + "100 ms"},
			{`{"key": "k", "cost": 20}`, ""},
			{`{"key": "k", "cost": 10}`, larger},
			{`{"key": "k", "cost": 11}`, longest + "1000 ms"},
			{`{"key": "many:1"}`, ""},
			{`{"key": "many:2"}`, "Raise the rule's max_keys"},
		} {
			r := call(t, a, "POST", "/v1/allow", tc.body)
			if got := text(t, r); tc.want == "" && r.StatusCode != 200 || !strings.Contains(got, tc.want) {
				t.Errorf("%s: %s, want %s", tc.body, got, tc.want)
			}
		}
	})
}

func TestRequestsThatCannotBeRead(t *testing.T) {
	a := newAPI(t, Options{MaxBody: 200, MaxBatch: 2})
	for _, tc := range []struct {
		body   string
		status int
		want   string
	}{
		{``, 400, "the JSON ends early"},
		{`{"key": "k"`, 400, "the JSON ends early"},
		{`{'key': "k"}`, 400, `it is not JSON from byte 2 on, at \"'key': \\\"k\\\"}\": put names and texts between double quotes`},
		{`{"key": "k",}`, 400, `from byte 13 on, at \"}\": put names and texts between double quotes, and no comma behind the last entry`},
		{`{"key": True}`, 400, `from byte 9 on, at \"True}\"`},
		{`{"key": "k"} {}`, 400, "there is something after the JSON"},
		{`{"key": "k"}}`, 400, "there is something after the JSON"},
		{`null`, 400, "there is no key"},
		{`[]`, 400, "it cannot be an array"},
		{`{}`, 400, "there is no key"},
		{`{"key": null}`, 400, "there is no key"},
		{`{"key": 3}`, 400, "key cannot be a number"},
		{`{"key": {}}`, 400, "key cannot be an object"},
		{`{"key": "k", "cost": 1.5}`, 400, "cost cannot be a number 1.5"},
		{`{"key": "k", "cost": 9223372036854775808}`, 400, "cost cannot be a number 9223372036854775808"},
		{`{"key": "k", "cost": "1"}`, 400, "cost cannot be a string: send a whole number, as in 1"},
		{`{"key": "k", "cost": 9223372036854775808}`, 400, "cost cannot be a number 9223372036854775808: send a whole number, as in 1, up to 9223372036854775807"},
		{`{"key": "k", "costs": 1}`, 400, `unknown field \"costs\": use key, cost, max_wait_ms, requests, all_or_nothing`},
		{`{"key": true}`, 400, "key cannot be a bool: send text in quotes"},
		{`{"requests": {"key": "k"}}`, 400, "requests cannot be an object: send a list"},
		{`{"key": "k", "max_wait_ms": -1}`, 400, "max_wait_ms is below 0"},
		{`{"key": "k", "all_or_nothing": true}`, 400, "all_or_nothing is for requests"},
		{`{"key": "k", "requests": [{"key": "k"}]}`, 400, "go into each of the requests"},
		{`{"cost": 1, "requests": [{"key": "k"}]}`, 400, "go into each of the requests"},
		{`{"requests": []}`, 400, "requests is empty"},
		{`{"requests": [{"key": "k"}, {}]}`, 400, "requests[1]: there is no key"},
		{`{"requests": [{"key": "k"}, {"key": "k"}, {"key": "k"}]}`, 413, "there are 3; send at most 2"},
		{`{"key": "` + strings.Repeat("x", 200) + `"}`, 413, "more than 200 bytes"},
		{"{\"key\": \"\xff\"}", 400, "not UTF-8"},
		{`{"key": "k", "cost": 1e400}`, 400, "cost cannot be a number"},
	} {
		r := call(t, a, "POST", "/v1/allow", tc.body)
		if got := text(t, r); r.StatusCode != tc.status || !strings.Contains(got, tc.want) || r.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.60s: %d %s, want %d %s", tc.body, r.StatusCode, got, tc.status, tc.want)
		}
	}
	for contentType, status := range map[string]int{
		"application/json; charset=utf-8": 200, "APPLICATION/JSON": 200, "application/json;charset=UTF-8": 200,
		"application/json; charset=utf8": 200, `application/json; charset="US-ASCII"`: 200, "application/json; charset=latin1": 415,
		"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "application/json; charset=utf-16": 415, "application/json;;": 415,
	} {
		r := call(t, a, "POST", "/v1/allow", `{"key": "k"}`, "Content-Type", contentType)
		if got := text(t, r); r.StatusCode != status || status == 415 && !strings.Contains(got, "Send Content-Type: application/json") {
			t.Errorf("%q: %d %s", contentType, r.StatusCode, got)
		}
	}
	if r := call(t, a, "POST", "/v1/allow", `{"key": "k"}`, "Content-Encoding", "gzip"); r.StatusCode != 415 {
		t.Errorf("gzip: %d", r.StatusCode)
	}
}

// Whatever the entries are, a body with too many of them is refused before it takes the
// memory that they need. A body of as many as there may be, with all their fields, is not.
// JSON has one kind of number, and some programs write all of theirs as floats.
func TestAWholeNumberMayBeWrittenAsAFloat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		document := readDocument(t)
		for body, want := range map[string]string{
			`{"key": "k1", "cost": 2.0}`:                               `"cost":2,"wait_ms":0,`,
			`{"key": "k2", "cost": 2e0, "max_wait_ms": 1.5e2}`:         `"cost":2,"wait_ms":0,`,
			`{"key": "large", "cost": 9007199254740991.0}`:             `"reason":"too-costly"`,
			`{"key": "k3", "cost": 0.0}`:                               `"reason":"invalid-cost"`,
			`{"key": "k3", "cost": -1.0}`:                              `"reason":"invalid-cost"`,
			`{"requests": [{"key": "large", "cost": 20000e-1}]}`:       `"cost":2000,`,
			`{"key": "k3", "cost": 1.5}`:                               "cost cannot be a number 1.5: send a whole number",
			`{"key": "k3", "cost": 9007199254740992.0}`:                "cost cannot be a number 9007199254740992.0: from 9007199254740992 on, write a whole number in digits alone, without a point or an exponent",
			`{"key": "k3", "cost": 1e18}`:                              "cost cannot be a number 1e18: from 9007199254740992 on, write",
			`{"key": "k3", "cost": 1e19}`:                              "send a whole number, as in 1, up to 9223372036854775807",
			`{"key": "k3", "max_wait_ms": 0.5}`:                        "max_wait_ms cannot be a number 0.5",
			`{"key": "k3", "max_wait_ms": false}`:                      "max_wait_ms cannot be a bool",
			`{"requests": [{"key": "k3"}, {"key": "k", "cost": [1]}]}`: "requests.cost cannot be an array: send a whole number",
		} {
			if got := text(t, call(t, a, "POST", "/v1/allow", body)); !strings.Contains(got, want) {
				t.Errorf("%s: %s", body, got)
			}
		}
		var sent any
		if err := json.Unmarshal([]byte(`{"key": "k", "cost": 2.0, "max_wait_ms": 1.5e2}`), &sent); err != nil {
			t.Fatal(err)
		}
		if err := document.check(map[string]any{"$ref": "#/components/schemas/Ask"}, sent); err != nil {
			t.Errorf("the document refuses it: %v", err)
		}
		r := text(t, call(t, a, "POST", "/v1/reserve", `{"key": "k4", "cost": 5.0}`))
		var held struct{ Reservation string }
		if err := json.Unmarshal([]byte(r), &held); err != nil {
			t.Fatal(err)
		}
		if got := text(t, call(t, a, "POST", "/v1/settle", `{"reservation": "`+held.Reservation+`", "cost": 3.0}`)); !strings.Contains(got, `"cost":3}`) {
			t.Errorf("settled: %s", got)
		}
	})
}

func TestBodiesWithTooManyEntriesAreNotDecoded(t *testing.T) {
	a := newAPI(t, Options{MaxBatch: 10})
	for _, entry := range []string{`{}`, `null`, `[]`, `1`, `{"key":"a"}`} {
		if r := call(t, a, "POST", "/v1/allow", `{"requests":[`+strings.Repeat(entry+",", 100)+entry+`]}`); r.StatusCode != 413 {
			t.Errorf("%s: %s", entry, r.Status)
		}
	}
	const full = `{"max_wait_ms": 0, "cost": 1, "key": "never,\\\",,,,,,,,,,,"}`
	for _, body := range []string{
		`{"requests":[` + strings.Repeat(full+",", 9) + full + `], "all_or_nothing": false}`,
		`{"all_or_nothing": false, "requests":[` + strings.Repeat(full+",", 9) + full + `]}`,
	} {
		if r := call(t, a, "POST", "/v1/allow", body); r.StatusCode != 200 {
			t.Errorf("%s: %s", r.Status, text(t, r))
		}
	}
}

func TestSeveralAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		r := call(t, a, "POST", "/v1/allow", `{"requests": [{"key": "k1", "cost": 20}, {"key": "k1"}, {"key": "k2", "cost": 0}, {"key": "patient", "cost": 1}]}`)
		want := `{"allowed":false,"results":[` +
			`{"allowed":true,"reason":"granted","cost":20,"wait_ms":0,"limit":10,"burst":20,"remaining":0},` +
			`{"allowed":false,"reason":"limited","cost":1,"retry_after_ms":113,"limit":10,"burst":20,"remaining":0},` +
			`{"allowed":false,"reason":"invalid-cost","cost":0},` +
			`{"allowed":true,"reason":"granted","cost":1,"wait_ms":0,"limit":10,"burst":1,"remaining":0}]}`
		if got := text(t, r); r.StatusCode != 200 || got != want {
			t.Errorf("%d %s\nwant %s", r.StatusCode, got, want)
		}
		r = call(t, a, "POST", "/v1/allow", `{"requests": [{"key": "k3"}, {"key": "k3"}]}`)
		if got := text(t, r); r.StatusCode != 200 || !strings.HasPrefix(got, `{"allowed":true,`) {
			t.Errorf("%d %s", r.StatusCode, got)
		}
	})
}

func TestAllOrNothingGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		left := func() string { return text(t, call(t, a, "GET", "/v1/keys/k1", "")) }
		all := func(body string) *http.Response {
			return call(t, a, "POST", "/v1/allow", `{"all_or_nothing": true, "requests": [`+body+`]}`)
		}
		r := all(`{"key": "k1", "cost": 15}, {"key": "k2", "cost": 20}, {"key": "k2"}`)
		if got := text(t, r); r.StatusCode != 429 || !strings.Contains(got, `"reason":"limited","cost":1,"retry_after_ms":113,`) || !strings.Contains(got, `"index":2`) || fields(r.Header) != "1" {
			t.Errorf("%d %s %s", r.StatusCode, fields(r.Header), got)
		}
		if got := left(); !strings.Contains(got, `"remaining":20,"live":true`) {
			t.Errorf("after a refusal: %s", got)
		}
		for _, wrong := range []string{`{"key": "k1", "cost": 5}, {"key": "other"}`, `{"key": "k1", "cost": 5}, {"key": "k1", "cost": 0}`, `{"key": "k1", "cost": 5}, {"key": "k1", "cost": 21}`} {
			if r := all(wrong); r.StatusCode < 400 || !strings.Contains(left(), `"remaining":20`) {
				t.Errorf("%s: %d, and then %s", wrong, r.StatusCode, left())
			}
		}
		r = all(`{"key": "k1", "cost": 15}, {"key": "k2", "cost": 20}`)
		if got := text(t, r); r.StatusCode != 200 || !strings.HasPrefix(got, `{"allowed":true,`) || !strings.Contains(left(), `"remaining":5`) {
			t.Errorf("%d %s, and then %s", r.StatusCode, got, left())
		}
	})
}

func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		for _, tc := range []struct {
			path, want, fields string
			status             int
		}{
			{"/v1/keys/k", `{"key":"k","rule":"k*","algorithm":"even","limit":10,"burst":20,"remaining":20,"live":false,"fallback":false}`, `"default";q=20;w=2 | "default";r=20;t=0`, 200},
			{"/v1/keys/k/a%2Fb//../c%20%25", `{"key":"k/a/b//../c %"`, `"default";q=20;w=2 | "default";r=20;t=0`, 200},
			{"/v1/keys/open", `{"key":"open","rule":"open","algorithm":"elastic","limit":1,`, `"default";q=1;w=1 | "default";r=1;t=0`, 200},
			{"/v1/keys/", `"type":"/v1/problems/invalid-key"`, "", 400},
			{"/v1/keys/k" + strings.Repeat("%20", 1023), `"rule":"k*"`, `"default";q=20;w=2 | "default";r=20;t=0`, 200},
			{"/v1/keys/k" + strings.Repeat("%20", 1024), `"type":"/v1/problems/invalid-key"`, "", 400},
			{"/v1/keys/nobody", `"type":"/v1/problems/unmatched"`, "", 404},
			{"/v1/keys", `"type":"/v1/problems/not-found"`, "", 404},
		} {
			r := call(t, a, "GET", tc.path, "")
			if got := text(t, r); r.StatusCode != tc.status || !strings.Contains(got, tc.want) || fields(r.Header) != tc.fields {
				t.Errorf("%s: %d %s %s", tc.path, r.StatusCode, fields(r.Header), got)
			}
		}
	})
}

func TestOtherPaths(t *testing.T) {
	ready := true
	a := newAPI(t, Options{Ready: func() bool { return ready }})
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		if r := call(t, a, "GET", path, ""); r.StatusCode != 200 || text(t, r) != "ok" {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	ready = false
	for path, status := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 503} {
		if r := call(t, a, "GET", path, ""); r.StatusCode != status {
			t.Errorf("%s when not ready: %d", path, r.StatusCode)
		}
	}
	for _, k := range kinds {
		if r := call(t, a, "GET", "/v1/problems/"+k.name, ""); r.StatusCode != 200 || text(t, r) != k.title+"\n"+k.advice {
			t.Errorf("%s: %d", k.name, r.StatusCode)
		}
	}
	if r := call(t, a, "GET", "/v1/openapi.json", ""); text(t, r) != strings.TrimSpace(string(OpenAPI)) {
		t.Error("another document is served")
	}
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
		detail       string
	}{
		{"GET", "/v1/allow", 405, "POST", "Use POST."},
		{"PUT", "/v1/allow", 405, "POST", "Use POST."},
		{"POST", "/v1/keys/k", 405, "GET, HEAD", "Use GET or HEAD."},
		{"DELETE", "/healthz", 405, "GET, HEAD", "Use GET or HEAD."},
		{"GET", "/", 404, "", "Look at /v1/openapi.json"},
		{"GET", "/v1/allow/", 404, "", "Look at /v1/openapi.json"},
		{"GET", "/v1/problems/none", 404, "", "Look at /v1/openapi.json"},
	} {
		r := call(t, a, tc.method, tc.path, "")
		if got := text(t, r); !strings.Contains(got, `"detail":"`+tc.detail) {
			t.Errorf("%s %s: %s", tc.method, tc.path, got)
		}
		if r.StatusCode != tc.status || r.Header.Get("Allow") != tc.allow || r.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d, allow %q", tc.method, tc.path, r.StatusCode, r.Header.Get("Allow"))
		}
	}
}

// The random part is never below nothing, nor above a quarter.
func TestRetryAfterIsSpread(t *testing.T) {
	for _, tc := range []struct {
		random      float64
		later, want time.Duration
	}{
		{0, time.Second, time.Second},
		{math.Nextafter(1, 0), time.Second, 1250*time.Millisecond - 1},
		{0.5, 0, 0},
		{0.5, -1, 0},
		{0.5, 1, 1},
		{0, math.MaxInt64, 24 * time.Hour},
		{0.9, math.MaxInt64, 24 * time.Hour},
	} {
		a := newAPI(t, Options{Random: func() float64 { return tc.random }})
		if got := a.responder.retryAfter(tc.later); got != tc.want {
			t.Errorf("%v and %v of a quarter: %v, want %v", tc.later, tc.random, got, tc.want)
		}
	}
}

// Numbers from a bucket of any kind make fields that can be read.
func TestFieldsOfAnyNumbers(t *testing.T) {
	d := readDocument(t)
	some := []float64{0, 1e-9, 0.5, 1, 1e3, 1e12, 1e300, math.Inf(1), math.NaN(), -1, math.Inf(-1)}
	for _, limit := range some {
		for _, burst := range some {
			for _, left := range some {
				h := make(http.Header)
				edge.SetRateLimit(h, &edge.Decision{Policy: edge.Policy{Known: left == 1, Limit: limit, Burst: burst}, Limit: limit, Burst: burst, Left: left})
				for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
					v := h.Get(name)
					if v == "" {
						continue
					}
					if err := d.check(d.resolve(map[string]any{"$ref": "#/components/headers/" + name})["schema"], v); err != nil {
						t.Errorf("limit %v, burst %v, left %v: %v", limit, burst, left, err)
					}
				}
			}
		}
	}
}

// fixed answers everything with one decision.
type fixed struct {
	Engine
	d edge.Decision
}

func (f fixed) Decide(context.Context, edge.Ask) edge.Decision { return f.d }

func TestWhoDecidesIsAway(t *testing.T) {
	for _, reason := range []edge.Reason{edge.Failed, edge.Reason(edge.Reasons)} {
		a := New(fixed{d: edge.Decision{Reason: reason, RetryAfter: time.Nanosecond}}, Options{})
		r := httptest.NewRecorder()
		q := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/allow", strings.NewReader(`{"key":"k"}`))
		q.Header.Set("Content-Type", "application/json")
		a.ServeHTTP(r, q)
		if r.Code != 503 || r.Header().Get("Retry-After") != "1" || !strings.Contains(r.Body.String(), `"/v1/problems/failed"`) {
			t.Errorf("%v: %d %s", reason, r.Code, r.Body)
		}
	}
}

// Whatever the bytes, the answer is one of the document's, and no failure.
func FuzzAPI(f *testing.F) {
	f.Add("POST", "/v1/allow", "application/json", []byte(`{"key": "k", "cost": 3, "max_wait_ms": 5}`))
	f.Add("POST", "/v1/allow", "application/json", []byte(`{"requests": [{"key": "k"}], "all_or_nothing": true}`))
	f.Add("POST", "/v1/allow", "application/json; charset=\"utf-8", []byte(`{"requests": [{"key": "k"}, null], "all_or_nothing": null}`))
	f.Add("GET", "/v1/keys/%ff%2f", "", []byte(nil))
	f.Add("GET", "/v1/problems/limited", "", []byte(nil))
	a := newAPI(f, Options{MaxBody: 4096, MaxBatch: 10})
	d := readDocument(f)
	f.Fuzz(func(t *testing.T, method, path, contentType string, body []byte) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://host", bytes.NewReader(body))
		if err != nil {
			return
		}
		if r.URL, err = r.URL.Parse(path); err != nil {
			return
		}
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code >= 500 || w.Code < 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if strings.Contains(w.Header().Get("Content-Type"), "json") && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("no JSON: %s", w.Body)
		}
		if op := d.operation(method, r.URL.Path); op != nil && w.Code != 405 && !strings.Contains(w.Body.String(), "not-found") {
			if err := d.checkResponse(method, r.URL.Path, w.Code, w.Header(), w.Body.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A program that may not ask is told which right it lacks, wherever it asks.
func TestSaysWhyTheProgramMayNotAsk(t *testing.T) {
	a := newAPI(t, Options{May: func(_ context.Context, kind edge.Kind, key string) error {
		if key == "kf" {
			return fmt.Errorf("lacks right %d", kind)
		}
		return nil
	}})
	for request, want := range map[[2]string]string{
		{"/v1/allow", `{"key": "kf"}`}: fmt.Sprintf("lacks right %d", edge.Take),
		{"/v1/allow", `{"requests": [{"key": "ka"}, {"key": "kf"}], "all_or_nothing": true}`}: fmt.Sprintf("lacks right %d", edge.Take),
		{"/v1/reserve", `{"key": "kf"}`}: fmt.Sprintf("lacks right %d", edge.Hold),
		{"/v1/charge", `{"key": "kf"}`}:  fmt.Sprintf("lacks right %d", edge.Charge),
	} {
		r := call(t, a, "POST", request[0], request[1])
		var answer struct{ Detail, Reason string }
		if err := json.Unmarshal([]byte(text(t, r)), &answer); err != nil {
			t.Fatal(err)
		}
		if r.StatusCode != http.StatusForbidden || answer.Reason != "forbidden" || answer.Detail != want {
			t.Errorf("%s: %d %+v, want %s", request, r.StatusCode, answer, want)
		}
	}
}
