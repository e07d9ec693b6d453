// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// socket is a path that is short enough for a Unix socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hg") //nolint:usetesting // the test's own is too long on some systems
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// httpTo is a client of what is at a network address, which closes its
// connections with the test.
func httpTo(t *testing.T, network, address string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func post(t *testing.T, c *http.Client, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://headgate/v1/allow", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

func get(t *testing.T, c *http.Client, path string) (status int, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://headgate"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

func TestHTTPIsServed(t *testing.T) {
	c := config(t)
	c.HTTP = "127.0.0.1:0"
	d := start(t, c)
	client := httpTo(t, "tcp", d.HTTP())
	if status, text := post(t, client, `{"key": "k"}`); status != 200 || !strings.Contains(text, `"remaining":999}`) {
		t.Errorf("%d %s", status, text)
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/openapi.json", "/v1/keys/k"} {
		if status, err := get(t, client, path); status != 200 || err != nil {
			t.Errorf("%s: %d, %v", path, status, err)
		}
	}
	if start(t, config(t)).HTTP() != "" {
		t.Error("HTTP is served though nobody said so")
	}
}

func TestOneUnixSocketServesGRPCAndHTTP(t *testing.T) {
	c := config(t)
	c.Limits = write(t, "limits.yaml", "limits: [{key: 'k*', limit: 1/s, burst: 1000, algorithm: even}]")
	c.Unix = socket(t)
	d := start(t, c)
	info, err := os.Stat(c.Unix)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	conn, err := grpc.NewClient("unix:"+c.Unix, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := httpTo(t, "unix", c.Unix)
	for range 3 { // both, in turns, of one bucket
		r, err := quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: "k", BucketName: "b", TokensRequested: 300})
		if err != nil || r.Status != quotaservicepb.AllowResponse_OK {
			t.Errorf("gRPC: %v, %v", r, err)
		}
		if status, text := post(t, client, `{"key": "k:b"}`); status != 200 {
			t.Errorf("HTTP: %d %s", status, text)
		}
	}
	if status, text := post(t, client, `{"key": "k:b", "cost": 999}`); status != 429 {
		t.Errorf("HTTP: %d %s", status, text)
	}
	if status, err := get(t, client, "/readyz"); status != 200 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if d.Edge() == "" {
		t.Error("the edge is gone")
	}
}

// Neither who says nothing, nor half of something, keeps a daemon from ending,
// and the file goes with it.
func TestStopEndsTheUnixSocket(t *testing.T) {
	promptly(t, func() time.Duration { return stopWithGreetings(t) })
}

func stopWithGreetings(t *testing.T) (took time.Duration) {
	t.Helper()
	c := config(t)
	c.Unix, c.HTTP, c.Drain = socket(t), "127.0.0.1:0", 300*time.Millisecond
	log, logged := recording()
	d, err := Start(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"", "P", "PR", "PRI * HTTP/2.0\r\n", "POST /v1/allow HTTP/1.1\r\nHost: x\r\n"} {
		for network, address := range map[string]string{"unix": c.Unix, "tcp": d.HTTP()} {
			conn, err := net.Dial(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, words); err != nil {
				t.Fatal(err)
			}
		}
	}
	client := httpTo(t, "unix", c.Unix)
	if status, err := get(t, client, "/readyz"); status != 200 || err != nil {
		t.Fatalf("%d, %v", status, err)
	}
	began := time.Now()
	if err := d.Stop(context.Background()); err != nil {
		t.Errorf("who hangs makes it fail: %v", err)
	}
	took = time.Since(began)
	if want := "HTTP requests did not end in time"; !strings.Contains(logged(), want) {
		t.Errorf("not logged: %q in\n%s", want, logged())
	}
	if _, err := os.Lstat(c.Unix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := get(t, client, "/readyz"); err == nil {
		t.Error("somebody still answers")
	}
	return took
}

// A call under way at the Unix socket ends by itself, though HTTP has ended.
func TestCallsAtTheUnixSocketAreDrained(t *testing.T) {
	c := config(t)
	c.Unix, c.Drain = socket(t), 30*time.Second
	d, err := Start(t.Context(), c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix:"+c.Unix, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	endless(t, ctx, conn)
	stopped := make(chan error, 1)
	go func() { stopped <- d.Stop(context.Background()) }()
	select {
	case err := <-stopped:
		t.Errorf("it did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A daemon that ends leaves the socket of another daemon that has taken its place.
func TestADaemonRemovesOnlyItsOwnSocket(t *testing.T) {
	c, another := config(t), config(t)
	c.Unix = socket(t)
	another.Unix = c.Unix
	old, err := Start(t.Context(), c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	removed := os.Remove(c.Unix)
	start(t, another)
	if err := errors.Join(removed, old.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if status, text := post(t, httpTo(t, "unix", c.Unix), `{"key": "k"}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

func TestStaleSocketsAreReplaced(t *testing.T) {
	c := config(t)
	c.Unix, c.UnixMode = socket(t), 0o600
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.Unix, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	// A process that is killed leaves its socket behind.
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d := start(t, c)
	if info, err := os.Stat(c.Unix); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if status, text := post(t, httpTo(t, "unix", c.Unix), `{"key": "k"}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	// What is in use, and what is no socket, stays.
	another := config(t)
	another.Unix = c.Unix
	if _, err := Start(t.Context(), another, quiet); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("%v", err)
	}
	if status, _ := post(t, httpTo(t, "unix", c.Unix), `{"key": "k"}`); status != 200 {
		t.Errorf("the first one no longer answers: %d", status)
	}
	another.Unix = write(t, "precious", "text")
	if _, err := Start(t.Context(), another, quiet); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(another.Unix); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if d.Edge() == "" {
		t.Error("the edge is gone")
	}
}

func TestMistakesAboutDoors(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		`http "h" is not host:port`:         func(c *Config) { c.HTTP = "h" },
		"no Unix socket that has it":        func(c *Config) { c.UnixMode = 0o600 },
		"has no file, and so no permission": func(c *Config) { c.Unix = "@abstract" },
		"choose a shorter one":              func(c *Config) { c.Unix = strings.Repeat("x", 108) },
		"is not permissions":                func(c *Config) { c.Unix, c.UnixMode = "x", 0o1777 },
		"nowhere/s: ":                       func(c *Config) { c.Unix = "nowhere/s" },
		"listen for programs that speak HTTP": func(c *Config) {
			c.Unix, c.HTTP = "s", "no-such-host.invalid:0"
		},
	} {
		c := config(t)
		change(&c)
		if d, err := Start(t.Context(), c, quiet); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
			if err == nil {
				_ = d.Stop(context.Background())
			}
		}
	}
}

// Under the systemd unit, the uids of a policy are the machine's, and the backlog of ports is the system's, which
// a process reads in /proc/sys.
func TestTheUnitHidesNothingThatADaemonNeeds(t *testing.T) {
	unit, err := os.ReadFile("../../examples/deploy/systemd/headgate.service")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if strings.HasPrefix(line, "PrivateUsers=") || strings.HasPrefix(line, "ProcSubset=") {
			t.Errorf("the unit has %s", line)
		}
	}
}
