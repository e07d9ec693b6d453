// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
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
	var text strings.Builder // p logs on this goroutine alone
	log := slog.New(loglimit.New(slog.NewTextHandler(&text, nil)))
	scope := tally.NewTestScope("", nil)
	p := NewPanics("edge", log, scope)
	for range 10 {
		_, err := p.Call(t.Context(), nil, nil, func(context.Context, any) (any, error) { panic("secret") })
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("the caller gets %v", err)
		}
		if err := p.Stream(nil, nil, nil, nil); status.Code(err) != codes.Internal { // calls nil
			t.Errorf("the caller of a stream gets %v", err)
		}
	}
	w := httptest.NewRecorder()
	p.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("other") })).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("the status is %d", w.Code)
	}
	logged := text.String()
	if n := strings.Count(logged, "\n"); n < 3 || n > 6 || !strings.Contains(logged, "secret") || !strings.Contains(logged, "panics_test.go") {
		t.Errorf("3 causes are logged, each with a stack, not:\n%s", logged)
	}
	if n := scope.Snapshot().Counters()["panics+server=edge"].Value(); n != 21 {
		t.Errorf("%d panics are counted, want 21", n)
	}
}
