// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/limiter/redis/redistest"
)

func TestServeAsksRedisWithItsPassword(t *testing.T) {
	server := redistest.Start(t)
	if err := server.Client().ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits: [{key: k, limit: 1/h, burst: 1, algorithm: redis, fallback: closed}]")
	t.Setenv("HEADGATE_REDIS_PASSWORD", "secret")
	var statuses []int
	for range 2 { // they have nothing in common but Redis
		p := serving(t, "--limits", limits, "--http", "127.0.0.1:0", "--redis", server.Address, "--redis-timeout", "5s")
		p.ready(t)
		line, err := p.stdout.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		status, err := postTo(t, "tcp", strings.Fields(line)[1], "k")
		if err != nil {
			t.Fatal(err)
		}
		statuses = append(statuses, status)
	}
	if statuses[0] != 200 || statuses[1] != 429 {
		t.Errorf("%v", statuses)
	}
}
