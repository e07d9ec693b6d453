// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

func TestWhoMayReadWhat(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	health := Health{Checks: map[string]Check{"serving": CheckOf(errors.New("it starts"))}}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "numbers") })
	s := New(l, nil, metrics, func() Health { return health }, slog.New(slog.DiscardHandler))
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, tc := range []struct {
		method, path, from string
		status             int
		body               string
	}{
		{"GET", "/metrics", "192.0.2.1:1", 200, "numbers"},
		{"GET", "/livez", "192.0.2.1:1", 200, "ok"},
		{"GET", "/healthz", "192.0.2.1:1", 200, "ok"},
		{"GET", "/readyz", "192.0.2.1:1", 503, `"error": "it starts"`},
		{"GET", "/debug/pprof/", "127.0.0.1:1", 200, "goroutine"},
		{"GET", "/debug/pprof/heap?debug=1", "[::1]:1", 200, "heap profile"},
		{"GET", "/debug/pprof/goroutine?debug=1", "[::ffff:127.0.0.1]:1", 200, "goroutine profile"},
		{"GET", "/debug/pprof/", "192.0.2.1:1", 403, "call from the machine itself"},
		{"GET", "/debug/pprof/heap", "[2001:db8::1]:1", 403, "profiles are for"},
		{"GET", "/debug/pprof/cmdline", "nobody", 403, "profiles are for"},
		{"POST", "/debug/pprof/profile", "127.0.0.1:1", 405, ""},
		{"GET", "/debug/vars", "127.0.0.1:1", 404, ""},
		{"POST", "/metrics", "127.0.0.1:1", 405, ""},
		{"GET", "/", "127.0.0.1:1", 404, ""},
	} {
		r, w := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, http.NoBody), httptest.NewRecorder()
		r.RemoteAddr = tc.from
		s.server.Handler.ServeHTTP(w, r)
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%s %s from %s: %d %.300s", tc.method, tc.path, tc.from, w.Code, w.Body)
		}
	}
}
