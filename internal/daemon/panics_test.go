// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/loglimit"
)

func TestAPanicEndsOneRequest(t *testing.T) {
	log, logged := recording()
	log = slog.New(loglimit.New(log.Handler()))
	scope := tally.NewTestScope("", nil)
	p := newPanics("edge", log, scope)
	for range 10 {
		_, err := p.call(t.Context(), nil, nil, func(context.Context, any) (any, error) { panic("secret") })
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("the caller gets %v", err)
		}
		if err := p.stream(nil, nil, nil, nil); status.Code(err) != codes.Internal { // calls nil
			t.Errorf("the caller of a stream gets %v", err)
		}
	}
	w := httptest.NewRecorder()
	p.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("other") })).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("the status is %d", w.Code)
	}
	text := logged()
	if n := strings.Count(text, "\n"); n < 3 || n > 6 || !strings.Contains(text, "secret") || !strings.Contains(text, "panics_test.go") {
		t.Errorf("3 causes are logged, each with a stack, not:\n%s", text)
	}
	if n := scope.Snapshot().Counters()["panics+server=edge"].Value(); n != 21 {
		t.Errorf("%d panics are counted, want 21", n)
	}
}

func TestLargeBodiesTakeTurns(t *testing.T) {
	read, go1 := make(chan struct{}), make(chan struct{})
	h := new(bodies).wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			read <- struct{}{}
			<-go1
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	ask := func(path string, length int64) int {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
		r.ContentLength = length
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for i := range 32 {
		go ask("/slow", []int64{-1, 1 << 20, 1 << 40}[i%3])
		<-read
	}
	if got := ask("/", 1<<20); got != http.StatusServiceUnavailable {
		t.Errorf("one too many gets %d", got)
	}
	if got := ask("/", 100); got != http.StatusOK {
		t.Errorf("a small one gets %d", got)
	}
	close(go1)
	for ask("/", 1<<20) != http.StatusOK { // as soon as one has ended
	}
}
