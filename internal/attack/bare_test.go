// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate/rpc/edge/httpapi"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// bareEnv has the file of a Unix socket: this process is a bare server, and runs no tests.
const bareEnv = "HEADGATE_ATTACK_BARE"

// yes grants everything.
type yes struct {
	quotaservicepb.UnimplementedQuotaServiceServer
}

func (yes) Allow(context.Context, *quotaservicepb.AllowRequest) (*quotaservicepb.AllowResponse, error) {
	return &quotaservicepb.AllowResponse{}, nil
}

func (yes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, httpapi.DefaultMaxBody))
	_, _ = io.WriteString(w, "{}\n")
}

// beBare serves gRPC and HTTP with handlers that do nothing, and prints where. It returns
// when stdin ends.
func beBare(unix string) error {
	var where victim
	where.Unix = unix
	programs, overHTTP := grpc.NewServer(grpc.MaxConcurrentStreams(100)), httpapi.NewServer(yes{})
	quotaservicepb.RegisterQuotaServiceServer(programs, yes{})
	for _, at := range []struct {
		network, address string
		says             *string
		serve            func(net.Listener) error
	}{
		{"tcp", "127.0.0.1:0", &where.Edge, programs.Serve},
		{"tcp", "127.0.0.1:0", &where.Cluster, programs.Serve},
		{"tcp", "127.0.0.1:0", &where.HTTP, overHTTP.Serve},
		{"tcp", "127.0.0.1:0", &where.Admin, overHTTP.Serve},
		{"unix", unix, &where.Unix, overHTTP.Serve},
	} {
		l, err := new(net.ListenConfig).Listen(context.Background(), at.network, at.address)
		if err != nil {
			return err
		}
		*at.says = l.Addr().String()
		go func() { _ = at.serve(l) }()
	}
	text, err := json.Marshal(where)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// bare starts a bare server.
func bare(t testing.TB) *target {
	t.Helper()
	d := &target{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	d.cmd.Env = append(os.Environ(), bareEnv+"="+filepath.Join(t.TempDir(), "s"))
	d.cmd.Stderr = d
	if _, err := d.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &d.victim)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// scheduled is how long the threads of the process ran, and waited for a processor.
func (d *target) scheduled(t testing.TB) (ran, waited time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		var r, w int64
		if _, err := fmt.Sscan(string(text), &r, &w); err != nil {
			t.Fatal(err)
		}
		ran, waited = ran+time.Duration(r), waited+time.Duration(w)
	}
	return ran, waited
}

// BenchmarkHonestCallersBesideABareServer compares how long honest callers wait under attack
// with how long they wait for servers of grpc-go and net/http whose handlers do nothing. An
// attack takes half a minute: -benchtime 3x has three of each.
func BenchmarkHonestCallersBesideABareServer(b *testing.B) {
	if err := moreFiles(); err != nil {
		b.Fatal(err)
	}
	for name, start := range map[string]func(testing.TB) *target{"headgate": func(t testing.TB) *target { return start(t) }, "bare": bare} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				d := start(b)
				done, over := make(chan struct{}), make(chan struct{})
				close(done)
				quiet := d.honest(b, 2000, done)
				ranBefore, waitedBefore := d.scheduled(b)
				go func() {
					defer close(over)
					ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second) // a bare server does not end what is slow
					defer cancel()
					_, _ = d.victim.attack(ctx, false)
				}()
				attacked := d.honest(b, 1, over)
				_, most := d.memory(b)
				ran, waited := d.scheduled(b)
				b.Logf("honest p99: %v quiet, %v attacked, %.1f times; %d MiB at most; ran for %v and waited for a processor for %v",
					p99(quiet), p99(attacked), float64(p99(attacked))/float64(p99(quiet)), most, ran-ranBefore, waited-waitedBefore)
				_ = d.cmd.Process.Kill()
			}
		})
	}
}
