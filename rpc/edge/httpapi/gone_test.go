// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/edge/httpapi"
)

// A program that hangs up while the owner of a key is asked never gets the answer. What
// was taken for it goes back, also for the other keys of its request.
func TestAProgramThatHangsUpBeforeTheAnswerKeepsNothing(t *testing.T) {
	mayNot := func(_ context.Context, _ edge.Kind, key string) error {
		if key == "forbidden" {
			return errors.New("forbidden")
		}
		return nil
	}
	for name, tc := range map[string]struct {
		path, body string
		taken      int64
		may        func(context.Context, edge.Kind, string) error
	}{
		"one":            {"/v1/allow", `{"key": "late", "cost": 3}`, 3, nil},
		"that waits":     {"/v1/allow", `{"key": "late", "cost": 3, "max_wait_ms": 1000}`, 3, nil},
		"a reservation":  {"/v1/reserve", `{"key": "late", "cost": 3}`, 3, nil},
		"several":        {"/v1/allow", `{"requests": [{"key": "a", "cost": 4}, {"key": "late"}, {"key": "b", "cost": 5}]}`, 10, nil},
		"all or nothing": {"/v1/allow", `{"requests": [{"key": "a", "cost": 4}, {"key": "late"}, {"key": "b", "cost": 5}], "all_or_nothing": true}`, 10, nil},
		"some forbidden": {"/v1/allow", `{"requests": [{"key": "forbidden"}, {"key": "a", "cost": 4}, {"key": "late"}]}`, 5, mayNot},
	} {
		t.Run(name, func(t *testing.T) {
			owner, e := enginetest.NewLate(t, "limits: [{key: '*', limit: 100/s, algorithm: exact}]")
			server := httptest.NewServer(httpapi.New(e, httpapi.Options{May: tc.may}))
			defer server.Close()
			ctx, hangUp := context.WithCancel(t.Context())
			go func() {
				<-owner.Asked
				waittest.Until(t, "the other keys are decided", func() bool { return owner.Taken() == tc.taken-lateCost(tc.body) })
				hangUp()
			}()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if answer, err := server.Client().Do(r); err == nil {
				answer.Body.Close()
				t.Errorf("%s", answer.Status)
			}
			waittest.Until(t, "all is taken", func() bool { return owner.Taken() == tc.taken })
			waittest.Until(t, "all goes back", func() bool { return owner.Kept() == 0 })
		})
	}
}

// lateCost is what the key "late" costs in body.
func lateCost(body string) int64 {
	if strings.Contains(body, "requests") {
		return 1
	}
	return 3
}

// Where the key's owner is asked for each event, a limit of 0 refuses as elsewhere: nothing says to
// split an event that costs 1.
func TestALimitOfZeroIsALimitWhereTheOwnerIsAsked(t *testing.T) {
	_, e := enginetest.NewLate(t, "limits: [{key: never, limit: 0/s, algorithm: exact}]")
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/allow", strings.NewReader(`{"key": "never"}`))
	r.Header.Set("Content-Type", "application/json")
	httpapi.New(e, httpapi.Options{}).ServeHTTP(w, r)
	if got := w.Body.String(); w.Code != http.StatusTooManyRequests || !strings.Contains(got, "nothing is allowed until the rule changes") || w.Header().Get("Retry-After") != "" {
		t.Errorf("%d %s", w.Code, got)
	}
}

// A request's line and header have at most 16 KiB together.
func TestHeadersAreBounded(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config = httpapi.NewServer(http.NotFoundHandler())
	server.Start()
	defer server.Close()
	for size, want := range map[int]int{15 << 10: http.StatusNotFound, 16 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X", strings.Repeat("x", size))
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != want {
			t.Errorf("a header of %d bytes: %d, %v; want %d", size, answer.StatusCode, err, want)
		}
	}
}
