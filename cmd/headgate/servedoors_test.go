// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// postTo asks for a token of key over HTTP at a network address.
func postTo(t *testing.T, network, address, key string) (status int, err error) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://headgate/v1/allow", strings.NewReader(`{"key": "`+key+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Body.Close()
}

func TestServeHTTPAndAUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "hg") //nolint:usetesting // the test's own is too long on some systems
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket, limits := filepath.Join(dir, "s"), filepath.Join(dir, "limits.yaml")
	write(t, limits, "limits: [{key: k, limit: 1/h, burst: 2}]")
	args := []string{"--limits", limits, "--http", "127.0.0.1:0", "--unix", socket, "--unix-mode", "600"}
	p := serving(t, args...)
	p.ready(t)
	line, err := p.stdout.ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) < 3 || words[0] != "http" {
		t.Fatalf("printed %q, %v", line, err)
	}
	if line, err := p.stdout.ReadString('\n'); err != nil || line != "unix     "+socket+"  gRPC and HTTP\n" {
		t.Errorf("printed %q, %v", line, err)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for i, at := range []struct {
		network, address string
		want             int
	}{{"tcp", words[1], 200}, {"unix", socket, 200}, {"tcp", words[1], 429}, {"unix", socket, 429}} {
		if status, err := postTo(t, at.network, at.address, "k"); status != at.want || err != nil {
			t.Errorf("%d, at %s: %d, %v", i, at.network, status, err)
		}
	}
	// What is killed leaves its socket, and the next one takes it over.
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if _, err := os.Lstat(socket); err != nil {
		t.Fatalf("nothing to take over: %v", err)
	}
	p = serving(t, args...)
	p.ready(t)
	if status, err := postTo(t, "unix", socket, "k"); status != 200 || err != nil {
		t.Errorf("after a restart: %d, %v", status, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// Whoever restarts it must not take a client that hangs for a failure.
func TestAClientThatHangsFailsNoRestart(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits:\n  - {key: \"*\", limit: 1/s}\n")
	p := serving(t, "--limits", limits, "--http", "127.0.0.1:0", "--drain", "100ms")
	p.ready(t)
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.Fields(line)[1])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("POST /v1/allow HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if answer, err := bufio.NewReader(conn).ReadString('\n'); !strings.HasPrefix(answer, "HTTP/1.1 100 ") { // who answers waits for the rest
		t.Fatalf("%q, %v", answer, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil || !strings.Contains(p.logged(), "HTTP requests did not end in time") {
		t.Errorf("it ends with %v", err)
	}
}
