// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// fetch is a request to a daemon.
func fetch(t *testing.T, method, url, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(read)
}

// endpoint reads the next line that says where something is served.
func (p *process) endpoint(t *testing.T, name string) string {
	t.Helper()
	line, err := p.stdout.ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) < 2 || words[0] != name {
		t.Fatalf("printed %q, %v", line, err)
	}
	return words[1]
}

func TestASignalMakesALameDuckAndASecondOneEndsIt(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits:\n  - {key: k, limit: 10/s}\n")
	p := serving(t, "--limits", limits, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--lame-duck", "1h")
	p.ready(t)
	at, admin := p.endpoint(t, "http"), p.endpoint(t, "admin")
	conn, err := grpc.NewClient(p.edge, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING} {
		if r, err := watch.Recv(); err != nil || r.Status != want {
			t.Fatalf("health: %v, %v", r, err)
		}
		if i == 0 {
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, url := range []string{"http://" + at + "/readyz", "http://" + admin + "/readyz"} {
		if status, text := fetch(t, http.MethodGet, url, ""); status != 503 {
			t.Errorf("%s: %d %s", url, status, text)
		}
	}
	if status, text := fetch(t, http.MethodPost, "http://"+at+"/v1/allow", `{"key": "k"}`); status != 200 {
		t.Errorf("a request to a lame duck: %d %s", status, text)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if state, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || state.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by itself: %v", p.cmd.ProcessState)
	}
}

func TestServeLogsAsItIsTold(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits:\n  - {key: k, limit: 10/s}\n")
	run := func(args ...string) string {
		p := launch(t, append([]string{"serve", "--limits", limits, "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0", "--lame-duck", "0s"}, args...)...)
		p.endpoint(t, "cluster")
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, p.stdout); err != nil {
			t.Error(err)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
		return p.logged()
	}
	found := false
	for line := range strings.Lines(run("--log-format", "json")) {
		var fields struct{ Time, Level, Msg, Edge string }
		if err := json.Unmarshal([]byte(line), &fields); err != nil || fields.Time == "" || fields.Level == "" {
			t.Errorf("%s: %v", line, err)
		}
		found = found || fields.Msg == "listening" && fields.Edge != "" && fields.Level == "INFO"
	}
	if !found {
		t.Error("no line says where it listens")
	}
	if logged := run("--log-level", "warn"); logged != "" {
		t.Errorf("below a warning: %s", logged)
	}
}
