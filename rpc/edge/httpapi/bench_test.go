// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// discard is a ResponseWriter that costs as little as can be.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkAllow is one request without net/http.
func BenchmarkAllow(b *testing.B) {
	a := newAPI(b, Options{})
	for name, body := range map[string]string{"granted": `{"key": "large"}`, "refused": `{"key": "never", "cost": 1, "max_wait_ms": 10}`} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), "POST", "/v1/allow", http.NoBody)
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = int64(len(body))
			text := bytes.NewReader([]byte(body))
			w := discard{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				text.Reset([]byte(body))
				r.Body = io.NopCloser(text)
				a.ServeHTTP(w, r)
			}
		})
	}
}
