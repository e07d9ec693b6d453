// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/dynamicconfig/history"
)

// silent is a database that accepts calls and never answers, as behind a network that drops packets.
type silent struct{ history.Store }

func (silent) Newest(ctx context.Context) (history.Version, error) {
	<-ctx.Done()
	return history.Version{}, ctx.Err()
}

func (silent) List(ctx context.Context, _ int64, _ int) ([]history.Version, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A database that does not answer is an answer to operators, who wait for no longer than that.
func TestADatabaseThatNeverAnswersIsToldToOperators(t *testing.T) {
	s := start(t, rights)
	s.Store = silent{}
	s.renew()
	for _, request := range []string{"GET /v1/limits", "GET /v1/limits/history", "PUT /v1/limits?message=x", "DELETE /v1/limits/rule?key=a&message=x"} {
		synctest.Test(t, func(t *testing.T) {
			method, path, _ := strings.Cut(request, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("limits: []"))
			r.Header.Set("Authorization", "Bearer root-token")
			r.Header.Set("If-Match", `"1"`)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != 503 || !strings.Contains(w.Body.String(), "does not answer") {
				t.Errorf("%s: %d %s", request, w.Code, w.Body)
			}
		})
	}
}
