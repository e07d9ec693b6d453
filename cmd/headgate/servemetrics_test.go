// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestServeShowsItsMetrics(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits: [{key: k, limit: 10/s}]")
	p := serving(t, "--limits", limits, "--metrics", "127.0.0.1:0")
	p.ready(t)
	line, err := p.stdout.ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) < 2 || words[0] != "metrics" {
		t.Fatalf("printed %q, %v", line, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+words[1]+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), "\nheadgate_limiter_keys ") {
		t.Errorf("%v, %s", err, text)
	}
}

// The flags say what the daemon is to know.
func TestServeRefusesHalfOfWhatItNeeds(t *testing.T) {
	for want, args := range map[string][]string{
		"name both files":             {"--tls-cert", "cert.pem"},
		"tls: a certificate and its":  {"--tls-key", "key.pem"},
		"no certificate to show them": {"--tls-client-ca", "ca.pem"},
		"authority, but no parent":    {"--parent-ca", "ca.pem"},
		`metrics "here" is not`:       {"--metrics", "here"},
		`"there" is not host:port`:    {"--redis", "there"},
		"no address: say where":       {"--redis-cluster"},
		"there are settings":          {"--redis-timeout", "1s"},
		"redis: there are settings, ": {"--redis-user", "me"},
		"settings, and no address":    {"--redis-tls"},
		"has a brace":                 {"--redis", "h:1", "--redis-prefix", "{"},
		"open nowhere":                {"--redis", "h:1", "--redis-password-file", "nowhere"},
	} {
		limits := filepath.Join(t.TempDir(), "limits.yaml")
		write(t, limits, "limits: [{key: k, limit: 10/s}]")
		args = append([]string{"serve", "--limits", limits, "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0"}, args...)
		if _, _, err := execute(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args[7:], err)
		}
	}
}
