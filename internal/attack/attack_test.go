// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"

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
	cmd                        *exec.Cmd
	cluster, edge, http, admin string
	unix                       string

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

// start runs a daemon that listens wherever it can.
func start(t *testing.T) *target {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "limits.yaml"), []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	const any = "127.0.0.1:0"
	d := &target{unix: filepath.Join(dir, "s")}
	d.cmd = exec.Command(testrun.Headgate(t), "serve", "--limits", filepath.Join(dir, "limits.yaml"),
		"--listen", any, "--edge", any, "--http", any, "--admin", any, "--unix", d.unix)
	d.cmd.Stderr = d
	var out bytes.Buffer
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
	out.WriteString(printed.logged())
	for _, m := range endpoint.FindAllStringSubmatch(out.String(), -1) {
		switch m[1] {
		case "cluster":
			d.cluster = m[2]
		case "edge":
			d.edge = m[2]
		case "http":
			d.http = m[2]
		case "admin":
			d.admin = m[2]
		}
	}
	return d
}

// memory is what the process has of it now, and had at most, in MiB.
func (d *target) memory(t *testing.T) (now, most int) {
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

// honest asks over HTTP and gRPC in turn, for as long as done is open, and returns
// how long answers took, sorted.
func (d *target) honest(t *testing.T, least int, done <-chan struct{}) (took []time.Duration) {
	t.Helper()
	conn, err := grpc.NewClient(d.edge, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	quota := quotaservicepb.NewQuotaServiceClient(conn)
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	ask := func(ctx context.Context) error {
		a, err := quota.Allow(ctx, &quotaservicepb.AllowRequest{Namespace: "honest", BucketName: "a", TokensRequested: 1}, grpc.WaitForReady(true))
		if err != nil || a.GetStatus() != quotaservicepb.AllowResponse_OK {
			return fmt.Errorf("quotaservice: %v, %w", a, err)
		}
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.http+"/v1/allow", strings.NewReader(`{"key":"honest:b"}`))
		r.Header.Set("Content-Type", "application/json")
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
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-done:
			if len(took) >= least {
				slices.Sort(took)
				return took
			}
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		began := time.Now()
		if err := ask(ctx); err != nil {
			t.Errorf("an honest client is not answered: %v", err)
		}
		took = append(took, time.Since(began))
		cancel()
		<-pace.C
	}
}

func p99(took []time.Duration) time.Duration { return took[len(took)*99/100] }

// each runs attack n times at once with connections of its own, and waits until all
// have ended, or ctx has.
func each(ctx context.Context, n int, network, address string, attack func(net.Conn)) {
	var all sync.WaitGroup
	for range n {
		conn, err := dial(ctx, network, address)
		if err != nil {
			continue
		}
		all.Go(func() {
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			attack(conn)
		})
	}
	all.Wait()
}

// keys asks for n keys that nobody asked for before.
func (d *target) keys(ctx context.Context, n int) {
	type ask struct {
		Key string `json:"key"`
	}
	for from := 0; from < n && ctx.Err() == nil; from += 1000 {
		asks := make([]ask, 1000)
		for i := range asks {
			asks[i].Key = fmt.Sprintf("attack:%d:%s", from+i, strings.Repeat("k", 100))
		}
		body, _ := json.Marshal(map[string]any{"requests": asks})
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.http+"/v1/allow", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// bombs sends messages that are small until they are decompressed.
func (d *target) bombs(ctx context.Context, n int) {
	conn, err := grpc.NewClient(d.edge, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return
	}
	defer conn.Close()
	bomb := &quotaservicepb.AllowRequest{Namespace: strings.Repeat("\x00", 100<<20)}
	for range n {
		_, _ = quotaservicepb.NewQuotaServiceClient(conn).Allow(ctx, bomb, grpc.UseCompressor(gzip.Name))
	}
}

// moreFiles lets this process and its children have as many connections as they can.
func moreFiles(t *testing.T) {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
}

const (
	allow  = "/quotaservice.QuotaService/Allow"
	update = "/headgate.v1.Decider/Update"
)

func TestADaemonUnderAttack(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks a process for seconds")
	}
	moreFiles(t)
	silent, newKeys, resetCalls, quietCalls, patience := 250, 50_000, 20_000, 500, 40*time.Second
	if testrun.Long() {
		silent, newKeys, resetCalls, quietCalls, patience = 2500, 1_000_000, 500_000, 5000, 3*time.Minute
	}
	d := start(t)
	done := make(chan struct{})
	close(done)
	quiet := d.honest(t, quietCalls, done)
	before, _ := d.memory(t)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	var attacks sync.WaitGroup
	var running sync.Map // names of attacks
	add := func(name string, attack func()) {
		running.Store(name, true)
		attacks.Go(func() {
			attack()
			running.Delete(name)
		})
	}
	for _, at := range [][2]string{{"tcp", d.edge}, {"tcp", d.cluster}, {"tcp", d.http}, {"tcp", d.admin}, {"unix", d.unix}} {
		add("noise at "+at[1], func() { each(ctx, 20, at[0], at[1], func(c net.Conn) { noise(c, 1) }) })
		add("pings at "+at[1], func() { each(ctx, 20, at[0], at[1], func(c net.Conn) { pings(c, 2000) }) })
		add("slow headers at "+at[1], func() {
			each(ctx, 20, at[0], at[1], func(c net.Conn) { halves(c, "POST /v1/allow HTTP/1.1\r\nHost: x\r\nX-") })
		})
		add("slow bodies at "+at[1], func() {
			each(ctx, 100, at[0], at[1], func(c net.Conn) {
				halves(c, "POST /v1/allow HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{\"key\"")
			})
		})
		add("large headers at "+at[1], func() {
			each(ctx, 5, at[0], at[1], func(c net.Conn) { halves(c, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 1<<20)) })
		})
		add("silence at "+at[1], func() {
			held, end := context.WithTimeout(ctx, 8*time.Second)
			defer end()
			each(held, silent, at[0], at[1], func(c net.Conn) { halves(c, "P") })
		})
	}
	for _, at := range [][3]string{{"tcp", d.edge, allow}, {"tcp", d.edge, update}, {"tcp", d.cluster, update}, {"unix", d.unix, allow}} {
		add("unfinished "+at[2]+" at "+at[1], func() { each(ctx, 4, at[0], at[1], func(c net.Conn) { unfinished(c, at[2]) }) })
		add("resets of "+at[2]+" at "+at[1], func() { each(ctx, 2, at[0], at[1], func(c net.Conn) { resets(c, at[2], resetCalls) }) })
	}
	add("new keys", func() { d.keys(ctx, newKeys) })
	add("bombs", func() { d.bombs(ctx, 3) })

	over := make(chan struct{})
	go func() {
		attacks.Wait()
		close(over)
	}()
	context.AfterFunc(ctx, func() {
		running.Range(func(name, _ any) bool {
			t.Errorf("the daemon let an attack go on: %s", name)
			return true
		})
	})
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
	d.checkLog(t, took)
}

var varies = regexp.MustCompile(`time=\S+|withheld=\d+|\S+:\d+|\d+`)

// checkLog wants no cause more often than once a second.
func (d *target) checkLog(t *testing.T, took time.Duration) {
	t.Helper()
	causes := make(map[string]int)
	for line := range strings.Lines(d.logged()) {
		causes[varies.ReplaceAllString(line, "")]++
	}
	for cause, n := range causes {
		if n > int(took.Seconds())+2 {
			t.Errorf("logged %d times in %v: %s", n, took, cause)
		}
	}
}
