// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/internal/addresstest"
)

// A process that may open fewer files than --max-connections still closes the connections for which
// it has no room. It did not accept them, so that their programs waited.
func TestConnectionsAreFewerThanOpenFiles(t *testing.T) {
	t.Parallel()
	at := addresstest.Free(t, 3)
	p := launchBy(t, func(c *exec.Cmd) error {
		c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n 100; exec "$0" "$@"`, c.Path}, c.Args[1:]...)
		return c.Start()
	}, "serve", "--listen", at[0], "--edge", at[1], "--http", at[2], "--lame-duck", "0s", "--limits", runtest.File(t, "limits.yaml", "limits: []"))
	eventually(t, "it listens", func() bool { return listening.MatchString(p.logged()) })
	var last net.Conn
	for range 120 {
		c, err := net.Dial("tcp", at[2])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		last = c
	}
	if err := last.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := last.Read(make([]byte, 1)); err == nil {
		t.Errorf("the last connection reads %d bytes", n)
	}
	if log := p.logged(); !strings.Contains(log, "open_files=100 max_connections=10000 taken=37") || strings.Contains(log, "too many open files") {
		t.Error(log)
	}
}
