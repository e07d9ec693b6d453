// SPDX-License-Identifier: Apache-2.0

package doorman_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
	"github.com/headgate/headgate/rpc/rpctest"
)

func contains(err error, word string) bool { return strings.Contains(err.Error(), word) }

func oneResource() *doormanpb.GetCapacityRequest {
	return &doormanpb.GetCapacityRequest{ClientId: new("a"), Resource: []*doormanpb.ResourceRequest{
		{ResourceId: new("fair"), Priority: new(int64(0)), Wants: new(10.0)},
		{ResourceId: new("static"), Priority: new(int64(0)), Wants: new(20.0)},
	}}
}

func TestAbsurdRequestsAreRefusedWhole(t *testing.T) {
	w := onLoopback(t, limits)
	long := strings.Repeat("x", rpc.MaxKeyLength+1)
	for _, row := range []struct {
		name string
		bend func(r *doormanpb.GetCapacityRequest)
		want string
	}{
		{"no client", func(r *doormanpb.GetCapacityRequest) { r.ClientId = new("") }, "client_id is empty; send"},
		{"long client", func(r *doormanpb.GetCapacityRequest) { r.ClientId = &long }, "use at most 1024"},
		{"nearly long client", func(r *doormanpb.GetCapacityRequest) { r.ClientId = new(long[1:]) }, "at most 1024"},
		{"no resource", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].ResourceId = new("") }, "resource_id is empty; send"},
		{"long resource", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].ResourceId = &long }, "use at most 1024"},
		{"twice", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].ResourceId = new("fair") }, "twice; add up"},
		{"NaN", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].Wants = new(math.NaN()) }, `resource "static": wants is NaN; send`},
		{"infinite", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].Wants = new(math.Inf(1)) }, "wants is +Inf"},
		{"negative", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].Wants = new(-1.0) }, "wants is -1"},
		{"beyond reason", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].Wants = new(1e300) }, "wants is 1e+300"},
		{"has NaN", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].Has = lease(math.NaN(), w.now().Add(time.Minute)) }, "has.capacity is NaN"},
		{"has negative", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].Has = lease(-5, w.now().Add(time.Minute)) }, "has.capacity is -5"},
		{"has beyond reason", func(r *doormanpb.GetCapacityRequest) { r.Resource[1].Has = lease(1e17, w.now().Add(time.Minute)) }, "has.capacity is 1e+17"},
		{"ten thousand", func(r *doormanpb.GetCapacityRequest) {
			for i := range 9998 {
				r.Resource = append(r.Resource, &doormanpb.ResourceRequest{ResourceId: new(fmt.Sprint(i)), Priority: new(int64(0)), Wants: new(1.0)})
			}
		}, "10000 resources in one request; send at most 4096"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := oneResource()
			row.bend(r)
			_, err := w.client.GetCapacity(t.Context(), r)
			wantCode(t, err, codes.InvalidArgument, row.want)
		})
	}
	// Nothing of all this was taken in, not even of rows that were in order.
	if got := w.get("b", "fair", 120, nil); got.GetGets().GetCapacity() != 120 || got.GetSafeCapacity() != 120 {
		t.Errorf("gets %v", got)
	}
	if n := w.counters()["doorman.requests_invalid"]; n != 14 {
		t.Errorf("%d invalid requests were counted", n)
	}
}

func TestAbsurdServersAreRefused(t *testing.T) {
	w := onLoopback(t, limits)
	band := func(priority, clients int64, wants float64) *doormanpb.PriorityBandAggregate {
		return &doormanpb.PriorityBandAggregate{Priority: &priority, NumClients: &clients, Wants: &wants}
	}
	many := make([]*doormanpb.PriorityBandAggregate, rpc.MaxBands+1)
	for i := range many {
		many[i] = band(int64(i), 1, 1)
	}
	for _, row := range []struct {
		name  string
		id    string
		bands []*doormanpb.PriorityBandAggregate
		want  string
	}{
		{"no server", "", nil, "server_id is empty"},
		{"nobody", "s", []*doormanpb.PriorityBandAggregate{band(3, 0, 10)}, "num_clients of priority 3 is 0"},
		{"less than nobody", "s", []*doormanpb.PriorityBandAggregate{band(0, 1, 1), band(3, -7, 10)}, "num_clients of priority 3 is -7"},
		{"too many", "s", []*doormanpb.PriorityBandAggregate{band(3, math.MaxInt64, 10)}, "num_clients of priority 3 is 9223372036854775807"},
		{"NaN", "s", []*doormanpb.PriorityBandAggregate{band(0, 1, math.NaN())}, "wants is NaN"},
		{"negative", "s", []*doormanpb.PriorityBandAggregate{band(0, 1, -1)}, "wants is -1"},
		{"too many priorities", "s", many, "wants has 65 priorities"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := w.client.GetServerCapacity(t.Context(), &doormanpb.GetServerCapacityRequest{
				ServerId: &row.id, Resource: []*doormanpb.ServerCapacityResourceRequest{{ResourceId: new("fair"), Wants: row.bands}},
			})
			wantCode(t, err, codes.InvalidArgument, row.want)
		})
	}
	_, err := w.client.GetServerCapacity(t.Context(), &doormanpb.GetServerCapacityRequest{ServerId: new("s"), Resource: []*doormanpb.ServerCapacityResourceRequest{
		{ResourceId: new("fair")}, {ResourceId: new("fair")},
	}})
	wantCode(t, err, codes.InvalidArgument, "twice")
	_, err = w.client.ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: new("")})
	wantCode(t, err, codes.InvalidArgument, "client_id is empty")
	_, err = w.client.ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: new("a"), ResourceId: []string{strings.Repeat("x", 2000)}})
	wantCode(t, err, codes.InvalidArgument, "use at most 1024")
	_, err = w.client.ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: new("a"), ResourceId: make([]string, 5000)})
	wantCode(t, err, codes.InvalidArgument, "send at most 4096")
}

// A server below is not refused because its clients have left.
func TestAServerWithoutClientsWantsNothing(t *testing.T) {
	w := onLoopback(t, limits)
	response, err := w.client.GetServerCapacity(t.Context(), &doormanpb.GetServerCapacityRequest{
		ServerId: new("s"), Resource: []*doormanpb.ServerCapacityResourceRequest{{
			ResourceId: new("fair"), Wants: []*doormanpb.PriorityBandAggregate{{Priority: new(int64(0)), NumClients: new(int64(0)), Wants: new(0.0)}},
		}},
	})
	if err != nil || response.GetResponse()[0].GetGets().GetCapacity() != 0 {
		t.Errorf("gets %v, %v", response, err)
	}
}

func TestReleasingAndAskingAtOnce(t *testing.T) {
	w := onLoopback(t, limits)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("client-", i%4)
			for range 100 {
				if i < 4 {
					w.release(name, "fair", "")
					continue
				}
				if got := w.get(name, "fair", 100, nil).GetGets().GetCapacity(); got < 0 || got > 120 {
					t.Errorf("%s gets %v", name, got)
				}
			}
		})
	}
	wg.Wait()
	for i := range 4 {
		w.release(fmt.Sprint("client-", i), "fair")
	}
	w.pass(10 * time.Second)
	if got := w.get("last", "fair", 200, nil).GetGets().GetCapacity(); got != 120 {
		t.Errorf("all was released, and %v of 120 are left", got)
	}
}

// byPrefix gives a key to the owner that stands for its prefix.
type byPrefix struct{}

func (byPrefix) Owner(key string) string { owner, _, _ := strings.Cut(key, ":"); return owner }

func TestAnOwnerThatIsAwayCostsItsOwnResourcesOnly(t *testing.T) {
	c := newClock()
	network := rpctest.New(1)
	network.Bytes(true)
	network.Host("here").Serve(newLedger(t, limits, c.now))
	claimant := &claims.Claimant{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers()}
	w := &world{t: t, now: c.now, pass: c.pass}
	w.serve(claimant, doorman.ServerOptions{Now: c.now})

	request := func(names ...string) *doormanpb.GetCapacityRequest {
		r := &doormanpb.GetCapacityRequest{ClientId: new("a")}
		for _, name := range names {
			r.Resource = append(r.Resource, &doormanpb.ResourceRequest{ResourceId: &name, Priority: new(int64(0)), Wants: new(5.0)})
		}
		return r
	}
	got, err := w.client.GetCapacity(t.Context(), request("away:1", "here:1", "away:2"))
	if err != nil || len(got.GetResponse()) != 1 || got.GetResponse()[0].GetResourceId() != "here:1" || got.GetResponse()[0].GetGets().GetCapacity() != 5 {
		t.Errorf("%v %v", got, err)
	}
	if n := w.counters()["doorman.resources_unanswered"]; n != 2 {
		t.Errorf("%d unanswered resources were counted", n)
	}
	_, err = w.client.GetCapacity(t.Context(), request("away:1", "away:2"))
	wantCode(t, err, codes.Unavailable, "away", "connection refused")
	_, err = w.client.GetServerCapacity(t.Context(), &doormanpb.GetServerCapacityRequest{
		ServerId: new("s"), Resource: []*doormanpb.ServerCapacityResourceRequest{{ResourceId: new("away:1")}},
	})
	wantCode(t, err, codes.Unavailable, "connection refused")
	for _, names := range [][]string{{"away:1"}, {"here:1", "away:1"}} {
		_, err = w.client.ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: new("a"), ResourceId: names})
		wantCode(t, err, codes.Unavailable, "connection refused")
	}
}

func TestWhoLeavesIsNotToldThatOwnersAreAway(t *testing.T) {
	network := rpctest.New(1)
	network.Host("mute").Serve(newLedger(t, limits, time.Now))
	network.Cut("me", "mute")
	s := doorman.NewServer(&claims.Claimant{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers()}, doorman.ServerOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r := oneResource()
	r.Resource = r.Resource[:1]
	r.Resource[0].ResourceId = new("mute:1")
	_, err := s.GetCapacity(ctx, r)
	wantCode(t, err, codes.DeadlineExceeded)
}

// said records what it is asked.
type said struct {
	mu     sync.Mutex
	claims []claims.Claim
	answer claims.Lease
}

func (s *said) Claim(_ context.Context, c *claims.Claims) (*claims.Leases, []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, c.Rows...)
	l := &claims.Leases{}
	for range c.Rows {
		l.Rows = append(l.Rows, s.answer)
	}
	return l, nil
}

func TestRefusedResourcesGetNothingForAWhile(t *testing.T) {
	c := newClock()
	w := &world{t: t, now: c.now, pass: c.pass}
	w.serve(&said{answer: claims.Lease{Refused: "no room for another key"}}, doorman.ServerOptions{Now: c.now})
	r := w.get("a", "one-too-many", 10, nil)
	if r.GetGets().GetCapacity() != 0 || r.GetGets().GetExpiryTime() <= c.now().Unix() || r.GetGets().GetRefreshInterval() < 5 || r.SafeCapacity != nil {
		t.Errorf("%v", r)
	}
	s := w.getServer("s", "one-too-many", nil, [3]float64{0, 1, 10})
	if s.GetGets().GetCapacity() != 0 || s.GetAlgorithm().GetLeaseLength() < 5 || s.GetAlgorithm().LearningModeDuration != nil {
		t.Errorf("%v", s)
	}
	if n := w.counters()["doorman.resources_refused"]; n != 2 {
		t.Errorf("%d refused resources were counted", n)
	}
}

// Ids count within the identity that the transport knows: here, a header.
func TestNobodyPassesForAnother(t *testing.T) {
	var hosts said
	hosts.answer = claims.Lease{Lasts: time.Minute, Refresh: time.Second}
	w := &world{t: t, now: time.Now}
	identify := func(ctx context.Context) (string, bool) {
		md, _ := metadata.FromIncomingContext(ctx)
		if who := md.Get("who"); len(who) > 0 {
			return who[0], true
		}
		return "", false
	}
	var who string
	as := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if who != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "who", who)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	w.serve(&hosts, doorman.ServerOptions{Identify: identify}, grpc.WithUnaryInterceptor(as))
	seen := make(map[string]string)
	for _, row := range [][2]string{{"", "x"}, {"alice", "x"}, {"bob", "x"}, {"", `@"alice"/x`}, {"", "@alice/x"}, {`alice"/`, "x"}, {"alice", `"/x`}, {"alice", "/x"}, {"a/b", "c"}, {"a", "b/c"}, {"", "7933"}} {
		who = row[0]
		caller := fmt.Sprintf("%q as %q", row[1], row[0])
		hosts.claims = nil
		w.get(row[1], "fair", 1, nil)
		w.release(row[1], "fair")
		w.getServer(row[1], "fair", nil)
		if len(hosts.claims) != 3 || hosts.claims[0].Host != hosts.claims[1].Host {
			t.Fatalf("%s: %v; who releases is not who asked", caller, hosts.claims)
		}
		for _, host := range []string{hosts.claims[0].Host, hosts.claims[2].Host} {
			if other, taken := seen[host]; taken {
				t.Errorf("%s passes for %s: %s", caller, other, host)
			}
			if !strings.Contains(host, "/") {
				t.Errorf("%s could be a host of the cluster: %s", caller, host)
			}
			seen[host] = caller
		}
	}
}
