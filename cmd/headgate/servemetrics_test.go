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

// The flags say what the daemon is to know.
func TestServeRefusesHalfOfWhatItNeeds(t *testing.T) {
	for want, args := range map[string][]string{
		"name both files":             {"--tls-cert", "cert.pem"},
		"tls: a certificate and its":  {"--tls-key", "key.pem"},
		"no certificate to show them": {"--tls-client-ca", "ca.pem"},
		"authority, but no parent":    {"--parent-ca", "ca.pem"},
		`admin "here" is not`:         {"--admin", "here"},
		"use text or json":            {"--log-format", "xml"},
		"use debug, info, warn":       {"--log-level", "loud"},
		"a lame duck for -1s":         {"--lame-duck", "-1s"},
		`"there" is not host:port`:    {"--redis", "there"},
		"no address: say where":       {"--redis-cluster"},
		"there are settings":          {"--redis-timeout", "1s"},
		"redis: there are settings, ": {"--redis-user", "me"},
		"settings, and no address":    {"--redis-tls"},
		"has a brace":                 {"--redis", "h:1", "--redis-prefix", "{"},
		"stat nowhere":                {"--redis", "h:1", "--redis-password-file", "nowhere"},
	} {
		limits := filepath.Join(t.TempDir(), "limits.yaml")
		write(t, limits, "limits: [{key: k, limit: 10/s}]")
		args = append([]string{"serve", "--limits", limits, "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0"}, args...)
		if _, _, err := execute(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args[7:], err)
		}
	}
}
