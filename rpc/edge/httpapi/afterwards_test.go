// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"
)

// reserve reserves tokens of a key, and returns what that is called.
func reserve(t *testing.T, a *API, body string) string {
	t.Helper()
	r := call(t, a, "POST", "/v1/reserve", body)
	var answer struct{ Reservation string }
	if err := json.Unmarshal([]byte(text(t, r)), &answer); err != nil || r.StatusCode != 200 || answer.Reservation == "" {
		t.Fatalf("%d %+v %v", r.StatusCode, answer, err)
	}
	return answer.Reservation
}

func settle(t *testing.T, a *API, id string, cost int64) (status int, body string) {
	t.Helper()
	r := call(t, a, "POST", "/v1/settle", fmt.Sprintf(`{"reservation": %q, "cost": %d}`, id, cost))
	return r.StatusCode, text(t, r)
}

func remaining(t *testing.T, a *API, key string) (n float64) {
	t.Helper()
	var answer struct{ Remaining float64 }
	if err := json.Unmarshal([]byte(text(t, call(t, a, "GET", "/v1/keys/"+key, ""))), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Remaining
}

func TestSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scope := tally.NewTestScope("", nil)
		a := newAPI(t, Options{Scope: scope})
		for i, tc := range []struct {
			estimate, cost int64
			left           float64 // of 20
		}{{5, 2, 18}, {5, 5, 15}, {5, 0, 20}, {5, 9, 11}, {20, 25, -5}} {
			id := reserve(t, a, fmt.Sprintf(`{"key": "k", "cost": %d}`, tc.estimate))
			if status, body := settle(t, a, id, tc.cost); status != 200 || body != fmt.Sprintf(`{"reservation":%q,"cost":%d}`, id, tc.cost) {
				t.Errorf("%d: %d %s", i, status, body)
			}
			got := remaining(t, a, "k")
			// What was sent again gives nothing back.
			if status, body := settle(t, a, id, 0); status != 404 || !strings.Contains(body, "/v1/problems/no-reservation") {
				t.Errorf("%d, again: %d %s", i, status, body)
			}
			if again := remaining(t, a, "k"); got != again || got != tc.left {
				t.Errorf("%d: %v left, and %v after it was settled again; want %v", i, got, again, tc.left)
			}
			time.Sleep(time.Hour)
		}
		if status, _ := settle(t, a, reserve(t, a, `{"key": "k"}`), math.MaxInt64); status != 200 || remaining(t, a, "k") != -40 { // two bursts
			t.Errorf("%d, %v left", status, remaining(t, a, "k"))
		}
		for known, want := range map[string]int64{"true": 6, "false": 5} {
			if got := scope.Snapshot().Counters()["httpapi.settlements+known="+known].Value(); got != want {
				t.Errorf("known=%s: %d", known, got)
			}
		}
	})
}

func TestReservingIsAllowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		for _, tc := range []struct {
			body   string
			status int
			want   string
		}{
			{`{"key": "k", "cost": 19}`, 200, `{"allowed":true,"reason":"granted","cost":19,"wait_ms":0,"limit":10,"burst":20,"remaining":1,"reservation":"`},
			{`{"key": "k", "cost": 2}`, 429, `"reason":"limited","cost":2,"retry_after_ms":113,`},
			{`{"key": "k", "cost": 21}`, 422, `"reason":"too-costly"`},
			{`{"key": "other"}`, 404, `"reason":"unmatched"`},
			{`{"key": "slots"}`, 422, `"reason":"in-flight"`},
			{`{"key": "k", "cost": 0}`, 400, `"reason":"invalid-cost"`},
			{`{"requests": [{"key": "k"}]}`, 400, `ask about one event`},
			{`{"key": 5}`, 400, `key cannot be a number`},
		} {
			r := call(t, a, "POST", "/v1/reserve", tc.body)
			if body := text(t, r); r.StatusCode != tc.status || !strings.Contains(body, tc.want) {
				t.Errorf("%s: %d %s", tc.body, r.StatusCode, body)
			}
		}
		// Over a soft limit, nothing is taken, and nothing comes back.
		call(t, a, "POST", "/v1/allow", `{"key": "soft"}`)
		if status, _ := settle(t, a, reserve(t, a, `{"key": "soft"}`), 0); status != 200 || remaining(t, a, "soft") != 0 {
			t.Errorf("%d, %v left", status, remaining(t, a, "soft"))
		}
	})
}

func TestCharging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{})
		for _, tc := range []struct {
			body   string
			status int
			want   string
		}{
			{`{"key": "k", "cost": 5}`, 200, `{"cost":5,"limit":10,"burst":20,"remaining":15}`},
			{`{"key": "k"}`, 200, `{"cost":1,"limit":10,"burst":20,"remaining":14}`},
			{`{"key": "k", "cost": 34}`, 200, `{"cost":34,"limit":10,"burst":20,"remaining":-20}`},
			{`{"key": "k", "cost": 0}`, 400, `"reason":"invalid-cost"`},
			{`{"key": "k", "cost": -5}`, 400, `"reason":"invalid-cost"`},
			{`{"key": "k", "max_wait_ms": 5}`, 400, `what has not happened yet`},
			{`{"key": "other"}`, 404, `"reason":"unmatched"`},
			{`{"key": ""}`, 400, `"reason":"invalid-key"`},
			{`{"key": "slots"}`, 422, `"reason":"in-flight"`},
			{`{"key": "many:1"}`, 200, `"remaining":0`},
			{`{"key": "many:2"}`, 429, `"reason":"too-many-keys"`},
			{`{"requests": [{"key": "k"}]}`, 400, `ask about one event`},
		} {
			r := call(t, a, "POST", "/v1/charge", tc.body)
			if body := text(t, r); r.StatusCode != tc.status || !strings.Contains(body, tc.want) {
				t.Errorf("%s: %d %s", tc.body, r.StatusCode, body)
			}
		}
		if left := remaining(t, a, "k"); left != -20 {
			t.Errorf("%v are left", left)
		}
		time.Sleep(2 * time.Second)
		if r := call(t, a, "POST", "/v1/allow", `{"key": "k"}`); r.StatusCode != 429 {
			t.Errorf("the debt is forgotten: %d", r.StatusCode)
		}
	})
}

func TestSettlementsThatMakeNoSense(t *testing.T) {
	a := newAPI(t, Options{})
	id := reserve(t, a, `{"key": "k", "cost": 5}`)
	for body, want := range map[string]string{
		`{"cost": 1}`:          "there is no reservation",
		`{"reservation": "x"}`: "there is no cost",
		`{"reservation": "` + id + `", "cost": -1}`:   "cost is below 0",
		`{"reservation": "` + id + `", "cost": 1e99}`: "cost cannot be",
		`{"reservation": "` + id + `", "key": "k"}`:   "unknown field",
		`{"reservation": "` + id + `", "cost": 1} {}`: "something after",
		"\xff": "not UTF-8",
	} {
		if r := call(t, a, "POST", "/v1/settle", body); r.StatusCode != 400 || !strings.Contains(text(t, r), want) {
			t.Errorf("%s: %d", body, r.StatusCode)
		}
	}
	if status, _ := settle(t, a, id, 1); status != 200 {
		t.Errorf("the reservation is gone: %d", status)
	}
}

// What is forgotten stays taken, and is not forgotten too early.
func TestReservationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Options{MaxReservations: 4, SettleWithin: time.Minute})
		ids := make([]string, 6)
		for i := range ids {
			ids[i] = reserve(t, a, `{"key": "large"}`)
		}
		if n := len(a.reserved.young) + len(a.reserved.old); n > 4 {
			t.Errorf("%d are remembered", n)
		}
		for i, id := range ids {
			want := 200
			if i < 2 {
				want = 404
			}
			if status, _ := settle(t, a, id, 0); status != want {
				t.Errorf("%d: %d", i, status)
			}
		}
		early := reserve(t, a, `{"key": "large"}`)
		time.Sleep(time.Minute)
		reserve(t, a, `{"key": "large"}`)
		if status, _ := settle(t, a, early, 0); status != 200 {
			t.Errorf("forgotten within a minute: %d", status)
		}
		late := reserve(t, a, `{"key": "large"}`)
		for range 2 {
			time.Sleep(time.Minute)
			reserve(t, a, `{"key": "large"}`)
		}
		if status, _ := settle(t, a, late, 0); status != 404 {
			t.Errorf("remembered for ever: %d", status)
		}
	})
}
