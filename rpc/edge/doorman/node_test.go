// SPDX-License-Identifier: Apache-2.0

package doorman_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

func parse(t *testing.T, limits string) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// startNode starts a node of a cluster. It stops with the test, unless stop
// was called before.
func startNode(t *testing.T, l net.Listener, address string, source dynamicconfig.Source, members ringpop.Members) (n *headgate.Node, stop func()) {
	t.Helper()
	n, err := headgate.New(headgate.Config{Address: address}, source, members,
		headgate.WithListen(l), headgate.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return n, stop
}

// through is the Claimer of whatever node runs now.
type through struct {
	mu   sync.Mutex
	node doorman.Claimer
}

func (c *through) Claim(ctx context.Context, asked *claims.Claims) (*claims.Leases, []error) {
	c.mu.Lock()
	node := c.node
	c.mu.Unlock()
	return node.Claim(ctx, asked)
}

func (c *through) set(node doorman.Claimer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node = node
}

// onNode is a real node behind a real server, in memory, on virtual time.
func onNode(t *testing.T, limits string) *world {
	const address = "10.0.0.1:7500"
	members, err := hosted.New(ringpop.Host{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	source := memory.New(parse(t, limits))
	claims := new(through)
	stop := func() {}
	w := &world{
		t: t, now: time.Now, pass: time.Sleep,
		configure: func(limits string) {
			source.Set(parse(t, limits))
			synctest.Wait()
		},
		restart: func() {
			stop()
			var n *headgate.Node
			n, stop = startNode(t, bufconn.Listen(1<<16), address, source, members)
			claims.set(n.Claimant())
		},
	}
	w.restart()
	w.serveInMemory(claims)
	return w
}

func TestConformanceOfANode(t *testing.T) {
	for name, check := range conformance {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, onNode(t, limits)) })
		})
	}
}

// TestAnyNodeAnswersForAnyResource is three nodes on loopback: what a client
// asks one of them for, it has with all of them.
func TestAnyNodeAnswersForAnyResource(t *testing.T) {
	source := memory.New(parse(t, limits))
	var hosts []ringpop.Host
	var listeners []net.Listener
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners, hosts = append(listeners, l), append(hosts, ringpop.Host{Address: l.Addr().String()})
	}
	members, err := hosted.New(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	var edges []*world
	var nodes []*headgate.Node
	for i, l := range listeners {
		n, _ := startNode(t, l, hosts[i].Address, source, members)
		w := &world{t: t, now: time.Now}
		claimant := n.Claimant()
		claimant.Timeout = time.Minute // on a busy machine an owner may not answer in a second
		w.serve(claimant, doorman.ServerOptions{})
		edges, nodes = append(edges, w), append(nodes, n)
	}
	owned := make(map[string]bool)
	for i := 0; i < 20 || len(owned) < 3 && i < 1000; i++ { // the ports, and so the parts of the ring, are at random
		resource := fmt.Sprintf("deep/%d", i)
		owned[nodes[0].Ring().Owner(resource)] = true
		for e, want := range []float64{70, 30, 0} {
			if got := edges[e].get(fmt.Sprint("client-", e), resource, 70, nil).GetGets().GetCapacity(); got != want {
				t.Errorf("%s at node %d: gets %v, want %v", resource, e, got, want)
			}
		}
		edges[2].release("client-0", resource)
		if got := edges[1].get("client-3", resource, 70, nil).GetGets().GetCapacity(); !near(got, 100./3) {
			t.Errorf("%s: released at another node, and a new client gets %v of 100 among three", resource, got)
		}
	}
	if len(owned) != 3 {
		t.Errorf("%d owners of 1,000 resources", len(owned))
	}
	for _, w := range edges {
		discovery(t, w)
	}
	all := &doormanpb.GetCapacityRequest{ClientId: new("all")}
	for i := range 20 {
		all.Resource = append(all.Resource, &doormanpb.ResourceRequest{ResourceId: new(fmt.Sprintf("deep/all/%d", i)), Priority: new(int64(0)), Wants: new(float64(i))})
	}
	response, err := edges[0].client.GetCapacity(t.Context(), all, grpc.WaitForReady(true))
	if err != nil || len(response.GetResponse()) != 20 {
		t.Fatal(response, err)
	}
	for i, r := range response.GetResponse() {
		if r.GetGets().GetCapacity() != float64(i) {
			t.Errorf("%s gets %v, want %d", r.GetResourceId(), r.GetGets(), i)
		}
	}
}
