// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rpc/middleware/httplimit"
)

// discard is a ResponseWriter that costs as little as can be.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkGranted is what a Limit adds to a request.
func BenchmarkGranted(b *testing.B) {
	for name, o := range map[string]httplimit.Options{
		"reject": {Key: "calls:{header:X-Tenant}"},
		"queue":  {Key: "calls:{header:X-Tenant}", Throttle: httplimit.Queue},
	} {
		b.Run(name, func(b *testing.B) {
			l, err := httplimit.New(enginetest.Of(b, "limits: [{key: '*', limit: 1e9/s, algorithm: even}]"), o)
			if err != nil {
				b.Fatal(err)
			}
			h := l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			r := httptest.NewRequestWithContext(b.Context(), "GET", "/p", http.NoBody)
			r.Header.Set("X-Tenant", "alice")
			w := discard{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
