// SPDX-License-Identifier: Apache-2.0

package doorman_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

func TestMain(m *testing.M) { waittest.Main(m) }

// ledger is an owner of leases that owns every key, and whose clock is given.
type ledger struct {
	now func() time.Time

	mu         sync.Mutex
	limits     *dynamicconfig.Snapshot
	born       time.Time // owners are new to every key then
	aggregator *aggregator.Aggregator
}

func newLedger(t testing.TB, limits string, now func() time.Time) *ledger {
	l := &ledger{now: now}
	l.configure(t, limits)
	l.restart()
	return l
}

func (l *ledger) configure(t testing.TB, limits string) {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = s
	if l.aggregator != nil {
		if err := l.aggregator.Configure(s); err != nil {
			t.Fatal(err)
		}
	}
}

func (l *ledger) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := aggregator.New(algorithm.Builtin(), l.limits)
	l.born, l.aggregator = l.now(), a
}

func (l *ledger) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	asked, err := claims.Decode(payload)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return claims.EncodeLeases(l.aggregator.Claim(l.now().Sub(l.born), asked), len(asked.Rows))
}

// everywhere is a ring of one.
type everywhere struct{}

func (everywhere) Owner(string) string { return "me" }

// clock is a time that passes when told to.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.nanos.Store(time.Unix(1_800_000_000, 250_000_000).UnixNano())
	return c
}

func (c *clock) now() time.Time       { return time.Unix(0, c.nanos.Load()) }
func (c *clock) pass(d time.Duration) { c.nanos.Add(int64(d)) }

// world is a cluster with its edge, as a client sees it.
type world struct {
	t         *testing.T
	client    doormanpb.CapacityClient
	address   string
	now       func() time.Time
	pass      func(time.Duration)
	configure func(limits string)
	restart   func() // of all owners
	counters  func() map[string]int64
}

// only is the Decider of all addresses.
type only struct{ rpc.Decider }

func (o only) Peer(string) (rpc.Decider, error) { return o.Decider, nil }

// onLoopback is a ledger behind a real server and a real connection, on a
// clock that passes when told to.
func onLoopback(t *testing.T, limits string) *world {
	c := newClock()
	l := newLedger(t, limits, c.now)
	claimant := &claims.Claimant{Host: "me", Placement: everywhere{}, Peers: only{l}}
	w := &world{
		t: t, now: c.now, pass: c.pass, restart: l.restart,
		configure: func(limits string) { l.configure(t, limits) },
	}
	w.serve(claimant, doorman.ServerOptions{Now: c.now})
	return w
}

// serve starts a server over claims and connects the client to it.
func (w *world) serve(claims doorman.Claimer, o doorman.ServerOptions, dial ...grpc.DialOption) {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.connect(listener, listener.Addr().String(), claims, o, dial...)
}

// serveInMemory is serve without a network, for virtual time.
func (w *world) serveInMemory(claims doorman.Claimer) {
	w.t.Helper()
	listener := bufconn.Listen(1 << 16)
	w.connect(listener, "passthrough:///edge", claims, doorman.ServerOptions{},
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
}

func (w *world) connect(listener net.Listener, address string, claims doorman.Claimer, o doorman.ServerOptions, dial ...grpc.DialOption) {
	w.t.Helper()
	w.address = address
	scope := tally.NewTestScope("", nil)
	o.Address, o.Scope = w.address, scope
	server := grpc.NewServer()
	doorman.NewServer(claims, o).Register(server)
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient(w.address, append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			w.t.Error(err)
		}
		server.Stop()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.client = doormanpb.NewCapacityClient(conn)
	w.counters = func() map[string]int64 {
		sums := make(map[string]int64)
		for _, c := range scope.Snapshot().Counters() {
			sums[c.Name()] += c.Value()
		}
		return sums
	}
}

// get asks for one resource. Has may be nil.
func (w *world) get(client, resource string, wants float64, has *doormanpb.Lease) *doormanpb.ResourceResponse {
	w.t.Helper()
	return w.getAt(client, resource, 0, wants, has)
}

func (w *world) getAt(client, resource string, priority int64, wants float64, has *doormanpb.Lease) *doormanpb.ResourceResponse {
	w.t.Helper()
	response, err := w.client.GetCapacity(w.t.Context(), &doormanpb.GetCapacityRequest{
		ClientId: &client,
		Resource: []*doormanpb.ResourceRequest{{ResourceId: &resource, Priority: &priority, Wants: &wants, Has: has}},
	})
	if err != nil {
		w.t.Fatalf("%s wants %v of %s: %v", client, wants, resource, err)
	}
	if response.GetMastership() != nil {
		w.t.Errorf("%s is sent to another master", client)
	}
	if len(response.GetResponse()) != 1 || response.GetResponse()[0].GetResourceId() != resource {
		w.t.Fatalf("%s asked for %s: %v", client, resource, response)
	}
	return response.GetResponse()[0]
}

// getServer asks for one resource on behalf of a server downstream. Bands are
// priority, clients, wants.
func (w *world) getServer(server, resource string, has *doormanpb.Lease, bands ...[3]float64) *doormanpb.ServerCapacityResourceResponse {
	w.t.Helper()
	request := &doormanpb.ServerCapacityResourceRequest{ResourceId: &resource, Has: has}
	for _, b := range bands {
		request.Wants = append(request.Wants, &doormanpb.PriorityBandAggregate{Priority: new(int64(b[0])), NumClients: new(int64(b[1])), Wants: new(b[2])})
	}
	response, err := w.client.GetServerCapacity(w.t.Context(), &doormanpb.GetServerCapacityRequest{
		ServerId: &server, Resource: []*doormanpb.ServerCapacityResourceRequest{request},
	})
	if err != nil {
		w.t.Fatalf("%s wants %v of %s: %v", server, bands, resource, err)
	}
	if response.GetMastership() != nil || len(response.GetResponse()) != 1 || response.GetResponse()[0].GetResourceId() != resource {
		w.t.Fatalf("%s asked for %s: %v", server, resource, response)
	}
	return response.GetResponse()[0]
}

func (w *world) release(client string, resources ...string) {
	w.t.Helper()
	response, err := w.client.ReleaseCapacity(w.t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: &client, ResourceId: resources})
	if err != nil || response.GetMastership() != nil {
		w.t.Fatalf("%s releases %q: %v %v", client, resources, response, err)
	}
}

// crowd is clients of one resource that hold to the protocol: they say what
// they have, and ask again when told to.
type crowd struct {
	*world

	resource string
	wants    map[string]float64
	has      map[string]*doormanpb.Lease
}

func (w *world) crowd(resource string, wants map[string]float64) *crowd {
	return &crowd{world: w, resource: resource, wants: wants, has: make(map[string]*doormanpb.Lease)}
}

// refresh lets each client ask once, by name, and time pass until the next.
func (c *crowd) refresh(times int) {
	c.t.Helper()
	for range times {
		interval := int64(1)
		for _, name := range slices.Sorted(maps.Keys(c.wants)) {
			c.has[name] = c.get(name, c.resource, c.wants[name], c.has[name]).GetGets()
			interval = c.has[name].GetRefreshInterval()
		}
		c.pass(time.Duration(interval) * time.Second)
	}
}

func (c *crowd) sum() (sum float64) {
	for _, l := range c.has {
		sum += l.GetCapacity()
	}
	return sum
}

// wantCode wants err to have a code, and words that say what to do.
func wantCode(t *testing.T, err error, code codes.Code, words ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%v, want %v", err, code)
		return
	}
	for _, word := range words {
		if !contains(err, word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

func lease(capacity float64, expiry time.Time) *doormanpb.Lease {
	return &doormanpb.Lease{ExpiryTime: new(expiry.Unix()), RefreshInterval: new(int64(8)), Capacity: &capacity}
}
