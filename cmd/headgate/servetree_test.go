// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/limiter/client"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// treeNode is one decider of a tree, a process that dies and comes back under
// the same addresses.
type treeNode struct {
	t             *testing.T
	cluster, edge string
	args          []string
	process       *process // nil while it is down

	begin func(*exec.Cmd) error // starts the process; nil: as usual
}

// start runs n until it listens.
func (n *treeNode) start() {
	n.t.Helper()
	begin := n.begin
	if begin == nil {
		begin = (*exec.Cmd).Start
	}
	p := launchBy(n.t, begin, append([]string{"serve", "--listen", n.cluster, "--edge", n.edge, "--lame-duck", "0s", "--drain", "200ms"}, n.args...)...)
	p.cluster, p.edge = n.cluster, n.edge
	eventually(n.t, "it listens", func() bool { return listening.MatchString(p.logged()) })
	n.process = p
}

// kill is kill -9.
func (n *treeNode) kill() {
	n.t.Helper()
	if err := n.process.cmd.Process.Kill(); err != nil {
		n.t.Fatal(err)
	}
	_ = n.process.cmd.Wait()
	n.process = nil
}

// stop ends n in order.
func (n *treeNode) stop() {
	n.t.Helper()
	if err := n.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	_ = n.process.cmd.Wait()
	n.process = nil
}

// treeCluster is the deciders of one cluster.
type treeCluster struct {
	name    string
	nodes   []*treeNode
	limits  string // a file
	members string // a file
}

// newTreeCluster starts size deciders below parent, which may be nil.
func newTreeCluster(t *testing.T, name string, size int, limits string, parent *treeCluster) *treeCluster {
	t.Helper()
	dir := t.TempDir()
	c := &treeCluster{name: name, limits: filepath.Join(dir, "limits.yaml"), members: filepath.Join(dir, "members.txt")}
	write(t, c.limits, limits)
	args := []string{"--limits", c.limits, "--members-file", c.members}
	if parent != nil {
		args = append(args, "--cluster", name, "--parent", strings.Join(parent.edges(), ","))
	}
	free := addresstest.Free(t, 2*size)
	for i := range size {
		c.nodes = append(c.nodes, &treeNode{t: t, cluster: free[2*i], edge: free[2*i+1], args: args})
	}
	c.list(t, nil)
	for _, n := range c.nodes {
		n.start()
	}
	return c
}

func (c *treeCluster) edges() (all []string) {
	for _, n := range c.nodes {
		all = append(all, n.edge)
	}
	return all
}

// list writes who the members are: all but one, which may be nil.
func (c *treeCluster) list(t *testing.T, but *treeNode) {
	t.Helper()
	text := ""
	for _, n := range c.nodes {
		if n != but {
			text += n.cluster + "\n"
		}
	}
	write(t, c.members, text)
}

// holder is a program at a leaf that holds leases of one key.
type holder interface {
	// held is what it may use at now, by its own lease.
	held(now time.Time) float64
	// left is how long its lease lasts from now on.
	left(now time.Time) time.Duration
	want(float64)
}

// doormanClient holds to Doorman's protocol, and has nothing but its generated
// code.
type doormanClient struct {
	id, key  string
	priority int64
	server   doormanpb.CapacityClient

	mu    sync.Mutex // protects following fields
	wants float64
	lease *doormanpb.Lease
}

// askEvery is how often clients of the test ask: more often than they must, so
// that a test of many mishaps is short.
const askEvery = 300 * time.Millisecond

func (c *doormanClient) want(wants float64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.wants = wants
}

func (c *doormanClient) held(now time.Time) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.leftLocked(now) <= 0 {
		return 0
	}
	return c.lease.GetCapacity()
}

func (c *doormanClient) left(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.leftLocked(now)
}

// leftLocked is left, with mu held.
func (c *doormanClient) leftLocked(now time.Time) time.Duration {
	return time.Unix(c.lease.GetExpiryTime(), 0).Sub(now)
}

// ask asks once. What does not answer leaves c with what it has.
func (c *doormanClient) ask(ctx context.Context) {
	c.mu.Lock()
	request := &doormanpb.GetCapacityRequest{ClientId: &c.id, Resource: []*doormanpb.ResourceRequest{{
		ResourceId: &c.key, Priority: &c.priority, Wants: new(c.wants), Has: c.lease,
	}}}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	response, err := c.server.GetCapacity(ctx, request)
	if err != nil || len(response.GetResponse()) != 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()

	c.lease = response.GetResponse()[0].GetGets()
}

// run asks until ctx ends.
func (c *doormanClient) run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		c.ask(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// goClient is a program with package limiter/client.
type goClient struct {
	client *client.Client
	key    string
	limit  float64
}

func (g *goClient) want(wants float64) { g.client.For(g.key).SetDemand(wants) }

func (g *goClient) held(time.Time) float64 {
	s := share(g.client, g.key)
	if s.Fallback || s.Lease <= 0 {
		return 0
	}
	return s.Weight * g.limit
}

func (g *goClient) left(time.Time) time.Duration { return share(g.client, g.key).Lease }

// crowd is all holders of a test, which run until it ends.
type crowd struct {
	t      *testing.T
	keys   map[string][]holder
	mishap atomic.Int64 // when the last one was, in Unix time and ns
}

// strikes notes that there is a mishap. What it takes from some and gives to
// others is held by both for as long as leases last; and then the next strikes.
func (c *crowd) strikes() { c.mishap.Store(time.Now().UnixNano()) }

func newCrowd(t *testing.T) *crowd { return &crowd{t: t, keys: make(map[string][]holder)} }

// doorman adds a client of Doorman's at edge.
func (c *crowd) doorman(edge, id, key string, wants float64) {
	c.t.Helper()
	conn, err := grpc.NewClient(edge, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond}, MinConnectTimeout: time.Second,
		}))
	if err != nil {
		c.t.Fatal(err)
	}
	d := &doormanClient{id: id, key: key, wants: wants, server: doormanpb.NewCapacityClient(conn)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.run(ctx)
	}()
	c.t.Cleanup(func() {
		cancel()
		<-done
		conn.Close()
	})
	c.keys[key] = append(c.keys[key], d)
}

// program adds a program with the Go client, for a key of so much limit.
func (c *crowd) program(at *treeCluster, id, key string, limit, wants float64) {
	c.t.Helper()
	remote, err := client.New(client.Config{Addresses: at.edges(), Host: id}, file.New(at.limits), client.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { remote.Close() })
	g := &goClient{remote, key, limit}
	g.want(wants)
	c.keys[key] = append(c.keys[key], g)
}

// sum is what all hold of key now.
func (c *crowd) sum(key string) (sum float64) {
	now := time.Now()
	for _, h := range c.keys[key] {
		sum += h.held(now)
	}
	return sum
}

// ledger is what was held of one key over time, beside its capacity.
type ledger struct {
	capacity       float64
	begun, last    time.Time
	above          time.Time // since when, or since the last mishap, there is more than the capacity; zero: there is not
	longest        time.Duration
	least, most    float64
	held, exceeded float64 // in units times seconds
}

// note notes what is held at now, when the last mishap was at that time.
func (l *ledger) note(now, mishap time.Time, sum float64) {
	if l.begun.IsZero() {
		l.begun, l.last, l.least = now, now, sum
	}
	passed := now.Sub(l.last).Seconds()
	l.last = now
	l.held += sum * passed
	l.least, l.most = min(l.least, sum), max(l.most, sum)
	if sum <= l.capacity*(1+1e-6) {
		l.above = time.Time{}
		return
	}
	if l.above.IsZero() || l.above.Before(mishap) {
		l.above = now
	}
	l.longest = max(l.longest, now.Sub(l.above))
	l.exceeded += (sum - l.capacity) * passed
}

// over is the mean excess, in parts of the capacity.
func (l *ledger) over() float64 { return l.exceeded / l.capacity / l.last.Sub(l.begun).Seconds() }

func (l *ledger) String() string {
	return fmt.Sprintf("held %.1f%% on average, %.1f%% to %.1f%%; over by %.3f%% on average, for %v after a mishap at most",
		100*l.held/l.capacity/l.last.Sub(l.begun).Seconds(), 100*l.least/l.capacity, 100*l.most/l.capacity, 100*l.over(), l.longest.Round(time.Millisecond))
}

// lookEvery is how often an account looks at what is held.
const lookEvery = 20 * time.Millisecond

// account keeps a ledger of each key, of the capacity, until the func that it
// returns is called.
func (c *crowd) account(capacity float64) (end func() map[string]*ledger) {
	ledgers := make(map[string]*ledger)
	for key := range c.keys {
		ledgers[key] = &ledger{capacity: capacity}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
			for key, l := range ledgers {
				began := time.Now()
				sum := c.sum(key)
				now := time.Now()
				if now.Sub(began) < lookEvery { // else holders were asked at times too far apart to be one sum
					l.note(now, time.Unix(0, c.mishap.Load()), sum)
				}
			}
		}
	}()
	return func() map[string]*ledger {
		close(stop)
		<-stopped
		return ledgers
	}
}

// owner is the decider that owns key while all are members.
func (c *treeCluster) owner(t *testing.T, key string) *treeNode {
	t.Helper()
	var hosts []ringpop.Host
	for _, n := range c.nodes {
		hosts = append(hosts, ringpop.Host{Address: n.cluster})
	}
	ring, err := ringpop.New(hosts, 0)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.nodes, func(n *treeNode) bool { return n.cluster == ring.Owner(key) })
	return c.nodes[i]
}
