// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// JSON that two libraries may read differently is refused, so that a proxy that
// checks a request and the daemon that decides about it read the same.
func TestRefusesJSONThatIsNotPlain(t *testing.T) {
	a := newAPI(t, Options{})
	for _, tc := range []struct{ path, body, want string }{
		{"/v1/allow", `{"key": "k", "cost": 1, "cost": 7}`, "cost is there twice"},
		{"/v1/allow", `{"key": "k", "key": "k2"}`, "key is there twice"},
		{"/v1/allow", `{"key": null, "key": "k2"}`, "key is there twice"},
		{"/v1/allow", `{"key": "k", "k\u0065y": "k2"}`, "key is there twice"},
		{"/v1/allow", `{"requests": [{"key": "k", "cost": 7}], "requests": [{"key": "k2"}]}`, "requests is there twice"},
		{"/v1/allow", `{"requests": [{"key": "k"}, {"key": "k", "max_wait_ms": 1, "max_wait_ms": 2}]}`, "max_wait_ms is there twice"},
		{"/v1/allow", `{"requests": [{"key": "k"}], "all_or_nothing": true, "all_or_nothing": false}`, "all_or_nothing is there twice"},
		{"/v1/allow", `{"Key": "k"}`, `unknown field \"Key\"`},
		{"/v1/allow", "{\"\u212aey\": \"k\"}", "unknown field"}, // the Kelvin sign, which folds to k
		{"/v1/allow", "{\"key\": \"k\", \"co\u017ft\": 7}", "unknown field"},
		{"/v1/allow", `{"requests": [{"key": "k", "COST": 7}]}`, `unknown field \"COST\"`},
		{"/v1/allow", `{"key": "k\ud800"}`, `\\ud800 is half of a surrogate pair`},
		{"/v1/allow", `{"key": "k\uDC00"}`, `\\udc00 is half of a surrogate pair`},
		{"/v1/allow", `{"key": "\ud800\ud800\udc00"}`, `\\ud800 is half of a surrogate pair`},
		{"/v1/allow", `{"key": "\ud800\\udc00"}`, `\\ud800 is half of a surrogate pair`},
		{"/v1/charge", `{"key": "k", "cost": 1, "cost": 7}`, "cost is there twice"},
		{"/v1/reserve", `{"key": "k", "Cost": 7}`, `unknown field \"Cost\"`},
		{"/v1/settle", `{"reservation": "a", "cost": 1, "cost": 0}`, "cost is there twice"},
		{"/v1/settle", `{"Reservation": "a", "cost": 1}`, `unknown field \"Reservation\"`},
	} {
		r := call(t, a, "POST", tc.path, tc.body)
		if got := text(t, r); r.StatusCode != http.StatusBadRequest || !strings.Contains(got, tc.want) {
			t.Errorf("%s %s: %d %s, want %s", tc.path, tc.body, r.StatusCode, got, tc.want)
		}
	}
	// What is plain is not refused, however it is written.
	for _, body := range []string{
		`{"key": "k: \"key\" {[\\", "cost": 1}`,
		`{"key": "k\ud83d\uDE00\u212a"}`,
		"{\"\\u006bey\"\n:\t\"k\"}",
		`{"requests": [{"key": "k", "cost": 2}, {"key": "k", "cost": 2}]}`,
	} {
		if r := call(t, a, "POST", "/v1/allow", body); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", body, r.StatusCode, text(t, r))
		}
	}
}

// What parse reads has no field twice, and no U+FFFD that the body has not.
func FuzzPlain(f *testing.F) {
	for _, body := range []string{
		`{"key":"k","cost":1}`, `{"requests":[{"key":"\ud800\udc00"}]}`, `{"key":"\\\"","KEY":null}`, `{"key":"\uD800\\"}`, `null`, `[[`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := parse(body)
		if err != nil {
			return
		}
		if !distinct(t, json.NewDecoder(bytes.NewReader(body))) {
			t.Errorf("%s was read, though a field is there twice", body)
		}
		replaced := bytes.Count(body, []byte("\ufffd")) + bytes.Count(bytes.ToLower(body), []byte(`\ufffd`))
		if q.Key != nil && strings.Count(*q.Key, "\ufffd") > replaced {
			t.Errorf("%s was read as %q", body, *q.Key)
		}
	})
}

// distinct reports whether no object of the next value of d has a field twice.
func distinct(t *testing.T, d *json.Decoder) bool {
	opening, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	if opening != json.Delim('{') && opening != json.Delim('[') {
		return true
	}
	ok, seen := true, make(map[json.Token]bool)
	for d.More() {
		if opening == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			ok = ok && !seen[name]
			seen[name] = true
		}
		ok = distinct(t, d) && ok
	}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	return ok
}
