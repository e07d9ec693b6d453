// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/client"
	"github.com/headgate/headgate/ringpop"
)

// TestMain has all tests share one binary, and those that may run side by side
// do so, on however few processors: most of the time they wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(testrun.Main(m))
}

// process is one daemon.
type process struct {
	cmd           *exec.Cmd
	cluster, edge string
	stdout        *bufio.Reader

	mu  sync.Mutex // protects following fields
	log bytes.Buffer
}

func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.log.Write(text)
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.log.String()
}

// launch runs headgate with args, until the test ends.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return launchBy(t, (*exec.Cmd).Start, args...)
}

// launchBy is launch by a function that starts the process.
func launchBy(t *testing.T, start func(*exec.Cmd) error, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(testrun.Headgate(t), args...)}
	p.cmd.Stderr = p
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(out)
	if err := start(p.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("%s logged:\n%s", p.edge, p.logged())
		}
	})
	return p
}

var listening = regexp.MustCompile(`msg=listening cluster=(\S+) edge=(\S+)`)

// serving launches a daemon and waits until it listens.
func serving(t *testing.T, args ...string) *process {
	t.Helper()
	p := launch(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0", "--lame-duck", "0s"}, args...)...)
	eventually(t, "it listens", func() bool {
		found := listening.FindStringSubmatch(p.logged())
		if found != nil {
			p.cluster, p.edge = found[1], found[2]
		}
		return found != nil
	})
	return p
}

// ready waits for the lines that say so.
func (p *process) ready(t *testing.T) {
	t.Helper()
	for _, want := range []string{"cluster  " + p.cluster + "  for other deciders\n", "edge     " + p.edge + "  gRPC: "} {
		line, err := p.stdout.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("printed %q, %v; want %q", line, err, want)
		}
	}
}

// eventually waits for a condition, not for a time.
var eventually = waittest.UntilSeldom

// write replaces a file at once.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func share(c *client.Client, key string) limiter.ShareStatus {
	st, ok := c.Group().Inspect(key)
	if !ok || len(st.Shares) == 0 {
		return limiter.ShareStatus{Fallback: true}
	}
	return st.Shares[0]
}

// drive uses keys at clients in turn, each key perSecond times, for as long as
// d, and returns how often each was allowed per second.
func drive(clients []*client.Client, keys []string, perSecond float64, d time.Duration) map[string]float64 {
	allowed, began := make(map[string]float64), time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	asked := 0.0
	for time.Since(began) < d {
		<-tick.C
		for due := time.Since(began).Seconds() * perSecond; asked < due; asked++ {
			for _, key := range keys {
				if clients[int(asked)%len(clients)].For(key).Allow() {
					allowed[key]++
				}
			}
		}
	}
	took := time.Since(began).Seconds()
	for key := range allowed {
		allowed[key] /= took
	}
	return allowed
}

// ownedBy returns a key that the daemon at address owns, of those at all.
func ownedBy(t *testing.T, address string, all []*process) string {
	t.Helper()
	var hosts []ringpop.Host
	for _, p := range all {
		hosts = append(hosts, ringpop.Host{Address: p.cluster})
	}
	ring, err := ringpop.New(hosts, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if key := fmt.Sprint("k", i); ring.Owner(key) == address {
			return key
		}
	}
	t.Fatalf("%s owns nothing", address)
	return ""
}

func TestServeEndsInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits:\n  - {key: k, limit: 10/s}\n")
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := serving(t, "--limits", limits)
		p.ready(t)
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(p.stdout)
		if err != nil || len(rest) != 0 {
			t.Errorf("%v: printed %q, %v", signal, rest, err)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
	// While it waits for the members, too.
	members := filepath.Join(t.TempDir(), "members.txt")
	write(t, members, "")
	p := serving(t, "--limits", limits, "--members-file", members)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("while it waits: %v", err)
	}
}

func TestServeShowsWhereTheLimitsAreBroken(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits:\n  - {key: k, limit: 3 apples}\n")
	_, said, err := execute(t, "serve", "--limits", limits, "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0")
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(said, "limits.yaml:2:") || !strings.Contains(said, "^") {
		t.Errorf("error %v, and on stderr %q", err, said)
	}
	for text, from := range map[string]string{
		"resources: [{identifier_glob: '*', capacity: 100, algorithm: {kind: FAIR_SHARE, lease_length: 60, refresh_interval: 5}}]": "doorman",
		"resources:\n  - {identifier_glob: 'a', capacity: 100}":                                                                    "doorman", // with mistakes
		"namespaces: {test: {buckets: {b: {size: 10, fill_rate: 5}}}}":                                                             "quotaservice",
		"namespaces:\n  test: {buckets: {b: {size: 10, fill_rate: 5, colour: 1}}}":                                                 "quotaservice",
	} {
		write(t, limits, text)
		for _, args := range [][]string{{"serve", "--limits", limits, "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0"}, {"limits", "check", limits}} {
			if _, said, err := execute(t, args...); err == nil || !strings.Contains(said, "headgate limits import --from "+from+" "+limits) {
				t.Errorf("%s of a config of %s: %v, and on stderr %q", args[0], from, err, said)
			}
		}
	}
	if _, _, err := execute(t, "serve"); err == nil || !strings.Contains(err.Error(), "--limits") {
		t.Errorf("without limits: %v", err)
	}
}

func TestServeReadsChangedLimits(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits:\n  - {key: k, limit: 10/s}\n")
	ctx, stop := context.WithCancel(t.Context())
	root := newRoot()
	p := new(process)
	reader, writer := io.Pipe()
	root.SetOut(writer)
	root.SetErr(p)
	root.SetArgs([]string{"serve", "--limits", limits, "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0", "--lame-duck", "0s"})
	ended := make(chan error, 1)
	go func() {
		ended <- root.ExecuteContext(ctx)
		writer.Close()
	}()
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	eventually(t, "it runs", func() bool { return strings.Contains(p.logged(), "hosts changed") })
	write(t, limits, "limits:\n  - {key: k, limit: ten}\n")
	eventually(t, "a broken file is refused", func() bool { return strings.Contains(p.logged(), "config refused") })
	write(t, limits, "limits:\n  - {key: k, limit: 20/s}\n  - {key: l, limit: 20/s}\n")
	eventually(t, "a good one is taken", func() bool { return strings.Contains(p.logged(), "rules=2") })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
