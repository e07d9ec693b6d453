// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/admin"
	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/internal/daemon/doors"
)

// readyz asks an admin address how the daemon does.
func readyz(t *testing.T, client *http.Client) (status int, h admin.Health) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://headgate/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &h); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer.StatusCode, h
}

// replace puts another file in the place of path, whole.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.Rename(write(t, "next", text), path); err != nil {
		t.Fatal(err)
	}
}

func TestReadyzSaysWhichLimitsAreInForce(t *testing.T) {
	c := config(t)
	c.Admin = "127.0.0.1:0"
	began := time.Now()
	d := start(t, c)
	client := httpTo(t, "tcp", d.Admin())
	status, h := readyz(t, client)
	first := h.Config
	if status != 200 || !h.Ready || !h.Checks["serving"].OK || !h.Checks["members"].OK || !h.Checks["owners"].OK || !h.Checks["limits"].OK {
		t.Errorf("%d, %+v", status, h)
	}
	if first.Rules != 1 || first.Name != "limits.yaml" || first.Version == "" || first.Since.Before(began.Add(-time.Minute)) || first.Since.After(time.Now()) ||
		first.Applied != 0 || first.Refused != 0 || !first.RefusedAt.IsZero() || first.Error != "" {
		t.Errorf("%+v", first)
	}
	metric := func(name string) float64 { return scrape(t, client)["headgate_config_"+name] }
	eventually(t, "the metrics say which limits are in force", func() bool {
		return metric("applied_timestamp_seconds") == float64(first.Since.UnixNano())/1e9 && metric("newest_in_force") == 1
	})
	// A broken file is told, and the daemon goes on.
	replace(t, c.Limits, "limits: [{key: k, limit: 3 apples}]")
	eventually(t, "the broken file is refused", func() bool { status, h = readyz(t, client); return h.Config.Refused > 0 })
	if status != 200 || !h.Ready || h.Checks["limits"].OK || !strings.Contains(h.Checks["limits"].Error, "apples") || h.Config.Error != h.Checks["limits"].Error ||
		h.Config.Version != first.Version || !h.Config.Since.Equal(first.Since) || h.Config.RefusedAt.Before(first.Since) {
		t.Errorf("%d, %+v", status, h)
	}
	eventually(t, "the metrics say that the newest limits are refused", func() bool {
		return metric("refused_total") == float64(h.Config.Refused) && metric("newest_in_force") == 0 && metric("refused_timestamp_seconds") == float64(h.Config.RefusedAt.UnixNano())/1e9
	})
	replace(t, c.Limits, "limits: [{key: k, limit: 3/s}, {key: l, limit: 3/s}]")
	eventually(t, "the good file is applied", func() bool { _, h = readyz(t, client); return h.Config.Rules == 2 })
	if !h.Checks["limits"].OK || h.Config.Error != "" || h.Config.Applied != 1 || !h.Config.Since.After(first.Since) {
		t.Errorf("%+v", h)
	}
	eventually(t, "the metrics say that the good file is in force", func() bool { return metric("applied_total") == 1 && metric("newest_in_force") == 1 })
}

// A daemon that reaches no owner but itself says so, and goes on: the others may all be gone.
func TestReadyzSaysThatMostOwnersDoNotAnswer(t *testing.T) {
	c := config(t)
	c.Admin, c.Listen = "127.0.0.1:0", addresstest.Free(t, 1)[0]
	c.Members = []string{c.Listen, "127.0.0.2:1", "127.0.0.3:1"} // nobody is at the others
	client := httpTo(t, "tcp", start(t, c).Admin())
	eventually(t, "the others are missed", func() bool {
		status, h := readyz(t, client)
		if status != 200 || !h.Ready {
			t.Errorf("%d, %+v", status, h)
		}
		return strings.Contains(h.Checks["owners"].Error, "reaches 1 of 3 deciders")
	})
	if part := scrape(t, client)["headgate_owners_unreachable"]; part <= 0.5 || part >= 1 {
		t.Errorf("%v of all keys", part)
	}
}

// While it waits for members, a daemon lives and is not ready.
func TestADaemonThatStartsIsNotReady(t *testing.T) {
	c := config(t)
	c.Admin, c.MembersFile = addresstest.Free(t, 1)[0], write(t, "members.txt", "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		d, err := Start(ctx, c, quiet)
		if err == nil {
			err = d.Stop(context.Background())
		}
		ended <- err
	}()
	client := httpTo(t, "tcp", c.Admin)
	eventually(t, "it lives", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://headgate/livez", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == 200
	})
	status, h := readyz(t, client)
	if status != 503 || h.Ready || !strings.Contains(h.Checks["serving"].Error, "starts") || !strings.Contains(h.Checks["members"].Error, "no list") {
		t.Errorf("%d, %+v", status, h)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it started without members")
	}
}

// closes reports whether an answer over HTTP is the last of its connection.
func closes(t *testing.T, client *http.Client) bool {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://headgate/livez", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.Close
}

func TestALameDuckAnswersUntilItsTimeIsOver(t *testing.T) {
	c := config(t)
	c.HTTP, c.Admin, c.LameDuck, c.Drain = "127.0.0.1:0", "127.0.0.1:0", time.Hour, time.Hour
	d, err := Start(t.Context(), c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	check := grpc_health_v1.NewHealthClient(dial(t, d.Edge()))
	watch, err := check.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", r, err)
	}
	describe := describing(t, dial(t, d.Edge()))
	client := httpTo(t, "tcp", d.HTTP())
	if closes(t, client) {
		t.Error("the connection ends with an answer before the daemon stops")
	}
	stopped := make(chan error, 1)
	go func() { stopped <- d.Stop(context.Background()) }()
	if r, err := watch.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("a watched health: %v, %v", r, err)
	}
	if r, err := check.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health: %v, %v", r, err)
	}
	// Who keeps a connection asks another daemon before this one closes what is open.
	if !closes(t, client) {
		t.Error("the connection does not end with its next answer")
	}
	for path, want := range map[string]int{"/readyz": 503, "/livez": 200} {
		if status, err := get(t, client, path); status != want || err != nil {
			t.Errorf("%s: %d, %v", path, status, err)
		}
	}
	if status, h := readyz(t, httpTo(t, "tcp", d.Admin())); status != 503 || h.Ready || !strings.Contains(h.Checks["serving"].Error, "stops") {
		t.Errorf("%d, %+v", status, h)
	}
	if status, text := post(t, httpTo(t, "tcp", d.HTTP()), `{"key": "k"}`); status != 200 {
		t.Errorf("a new connection: %d %s", status, text)
	}
	// The end comes sooner than after an hour when a port is served no more. Streams that
	// do not end by themselves do not delay it.
	d.ending.End(nil)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the daemon stops") {
		t.Errorf("a watched health at the end: %v", err)
	}
	if _, err := describe.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the daemon stops") {
		t.Errorf("a stream of reflection at the end: %v", err)
	}
}

func TestALameDuckLastsAsLongAsItIsTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lame := func(ctx context.Context, lasts time.Duration) time.Duration {
			d := &Daemon{phase: phase{stopping: make(chan struct{})}, config: Config{LameDuck: lasts}, log: quiet, ending: doors.NewEnding()}
			d.edge, d.web = doors.NewEdge(conns.Track(nil, 0), doors.NewTurns(), d.ending), doors.NewWeb(d.ending)
			began := time.Now()
			d.retire(ctx)
			if d.phase.ready() {
				t.Error("it is ready")
			}
			return time.Since(began)
		}
		for _, lasts := range []time.Duration{0, 5 * time.Second} {
			if took := lame(t.Context(), lasts); took != lasts {
				t.Errorf("%v took %v", lasts, took)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took := lame(ctx, time.Hour); took != time.Second {
			t.Errorf("with a deadline of a second it took %v", took)
		}
	})
}
