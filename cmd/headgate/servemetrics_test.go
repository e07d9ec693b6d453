// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestServeShowsItsMetrics(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits: [{key: k, limit: 10/s}]")
	p := serving(t, "--limits", limits, "--admin", "127.0.0.1:0")
	p.ready(t)
	at := "http://" + p.endpoint(t, "admin")
	_, text := fetch(t, http.MethodGet, at+"/metrics", "")
	for _, want := range []string{"\nheadgate_limiter_keys ", "\nheadgate_build_info{goversion=\"go1."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	for path, want := range map[string]string{"/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile", "/debug/pprof/cmdline": "serve", "/livez": "ok"} {
		if status, text := fetch(t, http.MethodGet, at+path, ""); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %.200s", path, status, text)
		}
	}
}
