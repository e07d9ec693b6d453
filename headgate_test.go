// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
)

// TestMain lets all tests that may run side by side do so, on however few
// processors: most of the time they wait.
func TestMain(m *testing.M) {
	testrun.CollectLess()
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	waittest.Main(m)
}

// limits parses YAML.
func limits(t testing.TB, text string) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const fast = `
defaults: {update_interval: 100ms, algorithm: request-weighted}
limits:
  - {key: "k", limit: 1000/s}
`

// cluster starts n nodes that know of each other.
func cluster(t *testing.T, n int, source dynamicconfig.Source, opts ...headgate.Option) ([]*headgate.Node, *hosted.Members) {
	t.Helper()
	var hosts []ringpop.Host
	var listeners []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		hosts = append(hosts, ringpop.Host{Address: l.Addr().String()})
	}
	members, err := hosted.New(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*headgate.Node
	for i, l := range listeners {
		node, err := headgate.New(headgate.Config{Address: hosts[i].Address}, source, members,
			append([]headgate.Option{headgate.WithListen(l), headgate.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := node.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, node)
	}
	return nodes, members
}

// eventually waits for a condition, not for a time.
var eventually = waittest.Until

func share(n *headgate.Node, key string) limiter.ShareStatus {
	st, ok := n.Group().Inspect(key)
	if !ok || len(st.Shares) == 0 {
		return limiter.ShareStatus{Fallback: true}
	}
	return st.Shares[0]
}

func TestWeightsFollowTheLoadOverRealConnections(t *testing.T) {
	nodes, _ := cluster(t, 3, memory.New(limits(t, fast)))
	eventually(t, "the busy host has most of the limit and the others have little", func() bool {
		for range 90 {
			nodes[0].For("k").Allow()
		}
		for range 5 {
			nodes[1].For("k").Allow()
			nodes[2].For("k").Allow()
		}
		a, b, c := share(nodes[0], "k"), share(nodes[1], "k"), share(nodes[2], "k")
		return !a.Fallback && !b.Fallback && !c.Fallback && a.Weight > 0.8 && a.Weight < 1 && b.Weight < 0.1 && c.Weight < 0.1
	})
}

func TestADeadOwnerCostsTheLeaseAndTheRingBringsANewOne(t *testing.T) {
	source := memory.New(limits(t, strings.Replace(fast, "limit: 1000/s", "limit: 1000/s, lease: 300ms, idle_after: 1h", 1)))
	nodes, members := cluster(t, 3, source)
	owner := nodes[0].Ring().Owner("k")
	var dead, alive *headgate.Node
	var left []ringpop.Host
	for _, h := range nodes[0].Ring().Hosts() {
		if h.Address != owner {
			left = append(left, h)
		}
	}
	for _, n := range nodes {
		if n.Address() == owner {
			dead = n
		} else {
			alive = n
		}
	}
	eventually(t, "a grant", func() bool { alive.For("k").Allow(); return !share(alive, "k").Fallback })
	if err := dead.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fallback, while the owner is dead", func() bool { alive.For("k").Allow(); return share(alive, "k").Fallback })
	if err := members.Set(left); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a grant of the new owner", func() bool { alive.For("k").Allow(); return !share(alive, "k").Fallback })
}

func TestConfigReachesHeldLimiters(t *testing.T) {
	source := memory.New(limits(t, fast))
	nodes, _ := cluster(t, 1, source)
	held := nodes[0].For("k")
	if held.Limit() != 1000 {
		t.Fatalf("limit %v", held.Limit())
	}
	source.Set(limits(t, strings.Replace(fast, "1000/s", "50/s", 1)))
	eventually(t, "the new limit", func() bool { return held.Limit() < 51 })
	bad := limits(t, strings.Replace(fast, "algorithm: request-weighted", "algorithm: nobody-has-it", 1))
	source.Set(bad)
	eventually(t, "a refusal of the unknown algorithm", func() bool { return nodes[0].Limits().Rejected() > 0 })
	if held.Limit() > 51 {
		t.Errorf("a refused config is in force: %v", held.Limit())
	}
}

// lines counts log records, and keeps the last one of each message.
type lines struct {
	slog.Handler

	mu    sync.Mutex
	count int
	last  map[string]string
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	r.Attrs(func(a slog.Attr) bool {
		l.last[r.Message] += a.String() + " "
		return true
	})
	return nil
}

func TestAReloadIsOneLogLine(t *testing.T) {
	source := memory.New(limits(t, fast))
	log := &lines{Handler: slog.DiscardHandler, last: make(map[string]string)}
	nodes, _ := cluster(t, 1, source, headgate.WithLogger(slog.New(log)))
	log.mu.Lock()
	before := log.count
	log.mu.Unlock()
	source.Set(limits(t, strings.Replace(fast, "1000/s", "50/s", 1)))
	eventually(t, "the new limit", func() bool { return nodes[0].For("k").Limit() == 50 })
	if err := nodes[0].Stop(t.Context()); err != nil { // the line is written by then
		t.Fatal(err)
	}
	if got := log.last["config applied"]; log.count != before+1 || !strings.Contains(got, `rule "k": limit 1000/s → 50/s, burst 1000 → 50`) {
		t.Errorf("%d lines: %v", log.count-before, log.last)
	}
}

func TestAnAlgorithmOfTheServicesOwn(t *testing.T) {
	tenth := func(capacity float64, _ []algorithm.Demand, parts []float64) {
		for i := range parts {
			parts[i] = capacity / 10
		}
	}
	nodes, _ := cluster(t, 2, memory.New(limits(t, strings.Replace(fast, "request-weighted", "{account: average, weigh: tenth}", 1))), headgate.WithAlgorithm("tenth", tenth))
	eventually(t, "a tenth", func() bool { nodes[1].For("k").Allow(); return share(nodes[1], "k").Weight > 0.09 })
}

func TestStopIsPromptWithASilentConnectionOpen(t *testing.T) {
	nodes, _ := cluster(t, 1, memory.New(limits(t, fast)))
	silent, err := net.Dial("tcp", nodes[0].Address())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	if err := nodes[0].Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Minute { // gRPC gives a connection that says nothing two
		t.Errorf("took %v", took)
	}
	if !nodes[0].For("k").Allow() {
		t.Error("a stopped node refuses everything")
	}
	if err := nodes[0].Start(t.Context()); !errors.Is(err, headgate.ErrStarted) {
		t.Errorf("started again: %v", err)
	}
}

func TestNewTellsWhatIsWrong(t *testing.T) {
	members, err := hosted.New()
	if err != nil {
		t.Fatal(err)
	}
	source := memory.New(limits(t, strings.Replace(fast, "request-weighted", "no-such", 1)))
	for address, want := range map[string]string{"10.0.0.1:7933": "no-such", "": "host:port", "10.0.0.1": "host:port"} {
		if _, err := headgate.New(headgate.Config{Address: address}, source, members); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("address %q: %v, want %s", address, err, want)
		}
	}
	if err := (headgate.Config{Address: "10.0.0.1"}).Validate(); err == nil || strings.Contains(err.Error(), "listen") {
		t.Errorf("only an address, without a port: %v", err)
	}
	if _, err := headgate.New(headgate.Config{Address: "10.0.0.1:7933"}, nil, nil); err == nil || !strings.Contains(err.Error(), "source is nil") || !strings.Contains(err.Error(), "members are nil") {
		t.Errorf("neither limits nor members: %v", err)
	}
	for _, address := range []string{":7933", "localhost:0"} {
		if _, err := headgate.New(headgate.Config{Address: address}, source, members); err == nil || !strings.Contains(err.Error(), "other hosts can call") {
			t.Errorf("address %q: %v", address, err)
		}
	}
	if _, err := headgate.New(headgate.Config{Address: "10.0.0.1:7933"}, source, members, headgate.WithAlgorithm("Bad Name", algorithm.None)); err == nil || !strings.Contains(err.Error(), `"Bad Name"`) {
		t.Errorf("a name that no rule can have: %v", err)
	}
	taken := headgate.WithAlgorithm("request-weighted", algorithm.RequestWeighted)
	if _, err := headgate.New(headgate.Config{Address: "10.0.0.1:7933"}, source, members, taken); !errors.Is(err, algorithm.ErrTaken) {
		t.Errorf("taken name: %v", err)
	}
	own := headgate.WithAlgorithm("own", algorithm.RequestWeighted)
	remote := headgate.WithRemote("own", exact.New(nil))
	for _, both := range [][]headgate.Option{{own, remote}, {remote, own}} { // in any order
		if _, err := headgate.New(headgate.Config{Address: "10.0.0.1:7933"}, source, members, both...); !errors.Is(err, algorithm.ErrTaken) {
			t.Errorf("a name for two: %v", err)
		}
	}
}

func TestStartWaitsForMembersAndCleansUp(t *testing.T) {
	nobody, err := hosted.New()
	if err != nil {
		t.Fatal(err)
	}
	node, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933", Listen: "127.0.0.1:0"}, memory.New(limits(t, fast)), nobody,
		headgate.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := node.Start(ctx); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "stop serving") {
		t.Errorf("started without any member: %v", err)
	}
}

func TestModule(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	members, err := hosted.New(ringpop.Host{Address: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	var node *headgate.Node
	app := fxtest.New(t,
		headgate.Module,
		fx.Supply(
			headgate.Config{Address: l.Addr().String()},
			fx.Annotate(memory.New(limits(t, fast)), fx.As(new(dynamicconfig.Source))),
			fx.Annotate(members, fx.As(new(ringpop.Members))),
			[]headgate.Option{headgate.WithListen(l)},
			slog.New(slog.DiscardHandler),
		),
		fx.Invoke(func(g *limiter.Group) {}),
		fx.Populate(&node),
	)
	app.RequireStart()
	eventually(t, "a grant from itself", func() bool { node.For("k").Allow(); return share(node, "k").Weight == 1 })
	app.RequireStop()
}

// Under elastic a key that runs low asks at once: the interval of an hour plays
// no part in it.
func TestElasticAnswersABurstWithinARoundTrip(t *testing.T) {
	nodes, _ := cluster(t, 3, memory.New(limits(t, `
defaults: {update_interval: 1h, lease: 2h}
limits:
  - {key: "k", limit: 3000/s}
`)))
	allowed := 0
	eventually(t, "one host has the whole burst, and more than the even share of the limit", func() bool {
		for range 20 {
			if nodes[0].For("k").Allow() {
				allowed++
			}
		}
		return allowed > 3000 && share(nodes[0], "k").Weight > 0.5
	})
}
