// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	policies "github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// mostMemory is the bound of docs/edges.md, in MiB.
const mostMemory = 512

const limits = `
defaults: {algorithm: even}
limits:
  - {key: "honest:*", limit: 1000000/s}
  - {key: "*", limit: 100/s}
`

// target is a daemon.
type target struct {
	cmd    *exec.Cmd
	victim victim
	tls    *tls.Config // of honest clients; nil: plain text
	token  string      // of honest clients; empty: none

	mu  sync.Mutex // protects following field
	log bytes.Buffer
}

func (d *target) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.log.Write(p)
}

func (d *target) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.log.String()
}

var endpoint = regexp.MustCompile(`(?m)^(\w+) +(\S+)  `)

// start runs a daemon that listens wherever it can, with more flags.
func start(t testing.TB, more ...string) *target {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"limits.yaml":    limits,
		"operators.yaml": "callers: [{name: ada, tokens: ['" + policies.Hash("nobody has it") + "'], see: ['*'], change: ['*']}]",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const any = "127.0.0.1:0"
	d := &target{victim: victim{Unix: filepath.Join(dir, "s")}}
	flags := []string{
		"serve", "--limits", filepath.Join(dir, "limits.yaml"),
		"--listen", any, "--edge", any, "--http", any, "--admin", any, "--unix", d.victim.Unix,
		"--operators", filepath.Join(dir, "operators.yaml"),
	}
	d.cmd = exec.Command(testrun.Headgate(t), append(flags, more...)...)
	d.cmd.Stderr = d
	printed := &target{}
	d.cmd.Stdout = printed
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	})
	waittest.Until(t, "it serves", func() bool { return strings.Contains(printed.logged(), "admin    ") })
	for _, m := range endpoint.FindAllStringSubmatch(printed.logged(), -1) {
		switch m[1] {
		case "cluster":
			d.victim.Cluster = m[2]
		case "edge":
			d.victim.Edge = m[2]
		case "http":
			d.victim.HTTP = m[2]
		case "admin":
			d.victim.Admin = m[2]
		}
	}
	return d
}

// memory is what the process has of it now, and had at most, in MiB.
func (d *target) memory(t testing.TB) (now, most int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		t.Skip("needs /proc:", err)
	}
	of := func(name string) int {
		m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("no %s in\n%s", name, text)
		}
		kb, _ := strconv.Atoi(string(m[1]))
		return kb >> 10
	}
	return of("VmRSS"), of("VmHWM")
}

// mostClosed is how many connections of an honest client may be closed in one attack.
const mostClosed = 2

// longest is what an honest client waits for two answers at most, and usual what it waits for
// nine times of ten. A machine that is shared may stand still for some seconds.
const (
	longest = time.Minute
	usual   = 10 * time.Second
)

// honest asks over HTTP and gRPC in turn, for as long as done is open, and returns
// how long answers took, sorted.
func (d *target) honest(t testing.TB, least int, done <-chan struct{}) (took []time.Duration) {
	t.Helper()
	creds, scheme := insecure.NewCredentials(), "http://"
	if d.tls != nil {
		creds, scheme = credentials.NewTLS(d.tls), "https://"
	}
	conn, err := grpc.NewClient(d.victim.Edge, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	quota := quotaservicepb.NewQuotaServiceClient(conn)
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: d.tls}}
	defer web.CloseIdleConnections()
	ask := func(ctx context.Context) error {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+d.token)
		a, err := quota.Allow(ctx, &quotaservicepb.AllowRequest{Namespace: "honest", BucketName: "a", TokensRequested: 1}, grpc.WaitForReady(true))
		if err != nil || a.GetStatus() != quotaservicepb.AllowResponse_OK {
			return fmt.Errorf("quotaservice: %v, %w", a, err)
		}
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, scheme+d.victim.HTTP+"/v1/allow", strings.NewReader(`{"key":"honest:b"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+d.token)
		answer, err := web.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("http: %s", answer.Status)
		}
		return nil
	}
	closed := 0
	between := 20 * time.Millisecond
	if testrun.Long() {
		between = 2 * time.Millisecond
	}
	pace := time.NewTicker(between)
	defer pace.Stop()
	for {
		select {
		case <-done:
			if len(took) >= least {
				slices.Sort(took)
				if late := took[len(took)*9/10]; late > usual {
					t.Errorf("a tenth of the answers to an honest client take %v or longer", late)
				}
				return took
			}
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		began := time.Now()
		err := ask(ctx)
		if errors.Is(err, io.EOF) { // a server may close a connection between two calls
			closed++
			err = ask(ctx)
		}
		if err != nil || closed > mostClosed {
			t.Errorf("an honest client is not answered: %v, with %d connections closed", err, closed)
		}
		took = append(took, time.Since(began))
		cancel()
		<-pace.C
	}
}

// defuses wants compressed messages refused: they are small until they are decompressed.
func (d *target) defuses(t *testing.T) {
	t.Helper()
	if err := d.victim.bomb(t.Context()); status.Code(err) != codes.Unimplemented {
		t.Errorf("a bomb over gRPC: %v", err)
	}
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	_, _ = w.Write([]byte(`{"key":"` + strings.Repeat("x", bombSize<<20) + `"}`))
	_ = w.Close()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+d.victim.HTTP+"/v1/allow", &body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a bomb over HTTP: %s", answer.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}

func p99(took []time.Duration) time.Duration { return took[len(took)*99/100] }

func TestADaemonUnderAttack(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks a process for seconds")
	}
	t.Parallel() // what takes long is waiting
	if err := moreFiles(); err != nil {
		t.Fatal(err)
	}
	quietCalls := 200
	if testrun.Long() {
		quietCalls = 2000
	}
	d := start(t)
	done := make(chan struct{})
	close(done)
	quiet := d.honest(t, quietCalls, done)
	before, _ := d.memory(t)
	d.defuses(t)
	if _, most := d.memory(t); most > before+bombSize/2 {
		t.Errorf("%d MiB before a bomb of %d MiB, and %d at most", before, bombSize, most)
	}

	began, over := time.Now(), make(chan struct{})
	go func() {
		defer close(over)
		if said, err := d.victim.attack(t.Context(), testrun.Long()); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	}()
	attacked := d.honest(t, 1, over)
	took := time.Since(began)
	now, most := d.memory(t)
	t.Logf("memory: %d MiB before, %d at most, %d after; attacked for %v", before, most, now, took.Round(time.Second))
	t.Logf("honest p99: %v quiet, %v attacked (%d calls)", p99(quiet), p99(attacked), len(attacked))
	if most > mostMemory {
		t.Errorf("the daemon had %d MiB, more than %d", most, mostMemory)
	}
	if err := d.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the daemon died: %v", err)
	}
	d.checkLog(t, began)
}

var (
	// cause is a line's server, message and error. Without what varies, it is what package
	// internal/loglimit counts as one.
	cause  = regexp.MustCompile(`(?:server|msg|error)=("(?:[^"\\]|\\.)*"|\S+)`)
	varies = regexp.MustCompile(`\S+:\d+|\d+`)
	server = regexp.MustCompile(` server=\S+`)
)

// mostCauses is how many causes each server of the daemon logs in one second.
const mostCauses = 16

// checkLog wants no cause more often than once a second since began, whatever else its lines
// say, and few causes of each server: clients choose some of their words.
func (d *target) checkLog(t *testing.T, began time.Time) {
	t.Helper()
	logged := d.logged()
	took := time.Since(began) // all that is read was logged by now
	seconds := int(took.Seconds()) + 2
	causes, servers := make(map[string]int), make(map[string]int)
	for line := range strings.Lines(logged) {
		causes[varies.ReplaceAllString(strings.Join(cause.FindAllString(line, -1), " "), "")]++
		servers[server.FindString(line)]++
	}
	for cause, n := range causes {
		if n > seconds {
			t.Errorf("logged %d times in %v: %s", n, took, cause)
		}
	}
	for server, n := range servers {
		if n > mostCauses*seconds {
			t.Errorf("%d lines are logged in %v by%s, with %d causes", n, took, server, len(causes))
		}
	}
}
