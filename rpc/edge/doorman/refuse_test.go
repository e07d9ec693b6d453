// SPDX-License-Identifier: Apache-2.0

package doorman_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

func contains(err error, word string) bool { return strings.Contains(err.Error(), word) }

func twoResources() *doormanpb.GetCapacityRequest {
	return &doormanpb.GetCapacityRequest{ClientId: new("a"), Resource: []*doormanpb.ResourceRequest{
		{ResourceId: new("fair"), Priority: new(int64(0)), Wants: new(10.0)},
		{ResourceId: new("static"), Priority: new(int64(0)), Wants: new(20.0)},
	}}
}

// A client of 2016 sends a refused request again for ever, and all its resources wait.
func TestABadResourceIsLeftOutAndTheOthersAreServed(t *testing.T) {
	long := strings.Repeat("x", rpc.MaxKeyLength+1)
	for _, row := range []struct {
		name string
		bend func(r *doormanpb.ResourceRequest)
	}{
		{"no resource", func(r *doormanpb.ResourceRequest) { r.ResourceId = new("") }},
		{"long resource", func(r *doormanpb.ResourceRequest) { r.ResourceId = &long }},
		{"no text", func(r *doormanpb.ResourceRequest) { r.ResourceId = new("\xff") }},
		{"twice", func(r *doormanpb.ResourceRequest) { r.ResourceId = new("fair") }},
		{"NaN", func(r *doormanpb.ResourceRequest) { r.Wants = new(math.NaN()) }},
		{"negative", func(r *doormanpb.ResourceRequest) { r.Wants = new(-1.0) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := onLoopback(t, limits)
			r := twoResources()
			row.bend(r.Resource[1])
			got, err := w.client.GetCapacity(t.Context(), r)
			if err != nil || len(got.GetResponse()) != 1 || got.GetResponse()[0].GetResourceId() != "fair" || got.GetResponse()[0].GetGets().GetCapacity() != 10 {
				t.Fatalf("%v, %v", got, err)
			}
			// Nothing of the bad one reached the sums.
			if got := w.get("b", "static", 100, nil); got.GetGets().GetCapacity() != 100 || got.GetSafeCapacity() != 100 {
				t.Errorf("gets %v", got)
			}
			if n := w.counters()["doorman.resources_left_out"]; n != 1 {
				t.Errorf("%d resources left out were counted", n)
			}
		})
	}
}

// Nor does a resource that the client may not use cost it the others. Of a request that names no other,
// the answer says why.
func TestAForbiddenResourceIsLeftOutAndTheOthersAreServed(t *testing.T) {
	c := newClock()
	l := newLedger(t, limits, c.now)
	w := &world{t: t, now: c.now, pass: c.pass}
	w.serve(&claims.Claimant{Host: "me", Placement: everywhere{}, Peers: only{l}}, doorman.ServerOptions{Now: c.now, May: func(_ context.Context, resource string) error {
		if resource != "fair" {
			return fmt.Errorf("%q is for others", resource)
		}
		return nil
	}})
	forbidden := func(err error) bool {
		return status.Code(err) == codes.PermissionDenied && contains(err, `"static" is for others`)
	}
	got, err := w.client.GetCapacity(t.Context(), twoResources())
	if err != nil || len(got.GetResponse()) != 1 || got.GetResponse()[0].GetResourceId() != "fair" || got.GetResponse()[0].GetGets().GetCapacity() != 10 {
		t.Fatalf("%v, %v", got, err)
	}
	if n := w.counters()["doorman.resources_left_out"]; n != 1 {
		t.Errorf("%d resources left out were counted", n)
	}
	one := twoResources()
	one.Resource = one.Resource[1:]
	if got, err := w.client.GetCapacity(t.Context(), one); !forbidden(err) {
		t.Errorf("of another's resource alone: %v, %v", got, err)
	}
	band := []*doormanpb.PriorityBandAggregate{{Priority: new(int64(0)), NumClients: new(int64(1)), Wants: new(5.0)}}
	servers := &doormanpb.GetServerCapacityRequest{ServerId: new("s"), Resource: []*doormanpb.ServerCapacityResourceRequest{
		{ResourceId: new("static"), Wants: band}, {ResourceId: new("fair"), Wants: band},
	}}
	if got, err := w.client.GetServerCapacity(t.Context(), servers); err != nil || len(got.GetResponse()) != 1 || got.GetResponse()[0].GetResourceId() != "fair" {
		t.Errorf("a server: %v, %v", got, err)
	}

	// Clients that close send an empty id along. What they may use is free then.
	if _, err := w.client.ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: new("a"), ResourceId: []string{"", "static", "fair"}}); err != nil {
		t.Fatal(err)
	}
	if got := w.get("b", "fair", 115, nil); got.GetGets().GetCapacity() != 115 {
		t.Errorf("after the release, another client gets %v", got)
	}
	if _, err := w.client.ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: new("a"), ResourceId: []string{"", "static"}}); !forbidden(err) {
		t.Errorf("a release of another's resource alone: %v", err)
	}
	if _, err := w.client.ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: new("a"), ResourceId: []string{""}}); err != nil {
		t.Errorf("a release of nothing: %v", err)
	}
}

// A number out of range counts as the nearest in range.
func TestNumbersOutOfRangeAreClamped(t *testing.T) {
	later := func(w *world) time.Time { return w.now().Add(time.Minute) }
	for _, row := range []struct {
		name     string
		resource string
		bend     func(r *doormanpb.ResourceRequest, w *world)
		gets     float64
	}{
		{"infinite", "static", func(r *doormanpb.ResourceRequest, _ *world) { r.Wants = new(math.Inf(1)) }, 100},
		{"beyond reason", "static", func(r *doormanpb.ResourceRequest, _ *world) { r.Wants = new(1e300) }, 100},
		{"beyond reason, without a rule", "no-rule", func(r *doormanpb.ResourceRequest, _ *world) { r.Wants = new(1e300) }, rpc.MaxAmount},
		{"has NaN", "fair-learns", func(r *doormanpb.ResourceRequest, w *world) { r.Has = lease(math.NaN(), later(w)) }, 0},
		{"has negative", "fair-learns", func(r *doormanpb.ResourceRequest, w *world) { r.Has = lease(-5, later(w)) }, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := onLoopback(t, limits)
			r := twoResources()
			r.Resource[1].ResourceId = &row.resource
			row.bend(r.Resource[1], w)
			got, err := w.client.GetCapacity(t.Context(), r)
			if err != nil || len(got.GetResponse()) != 2 || got.GetResponse()[1].GetGets().GetCapacity() != row.gets {
				t.Fatalf("%v, %v; want %v", got, err, row.gets)
			}
			if n := w.counters()["doorman.numbers_clamped"]; n != 1 {
				t.Errorf("%d clamped numbers were counted", n)
			}
		})
	}
	w := onLoopback(t, limits)
	if got := w.get("a", "fair-learns", 1, lease(1e17, later(w))).GetGets().GetCapacity(); got < 0 || got > rpc.MaxAmount {
		t.Errorf("has 1e17, and gets %v", got)
	}
}

func TestManyResourcesAreServedInParts(t *testing.T) {
	c := newClock()
	w := &world{t: t, now: c.now, pass: c.pass}
	most := new(largest)
	w.serve(most, doorman.ServerOptions{Now: c.now, MaxResources: 1000})
	r := &doormanpb.GetCapacityRequest{ClientId: new("a")}
	names := make([]string, 4321)
	for i := range names {
		names[i] = fmt.Sprint(i)
		r.Resource = append(r.Resource, &doormanpb.ResourceRequest{ResourceId: &names[i], Priority: new(int64(0)), Wants: new(float64(i))})
	}
	got, err := w.client.GetCapacity(t.Context(), r)
	if err != nil || len(got.GetResponse()) != len(names) {
		t.Fatalf("%d answers, %v", len(got.GetResponse()), err)
	}
	for i, one := range got.GetResponse() {
		if one.GetResourceId() != names[i] || one.GetGets().GetCapacity() != float64(i) {
			t.Fatalf("answer %d is %v", i, one)
		}
	}
	if most.rows != 1000 {
		t.Errorf("%d were claimed at once, want 1000", most.rows)
	}
	w.release("a", names...)
	if most.released != len(names) {
		t.Errorf("%d were released", most.released)
	}
}

// largest grants what is wanted, and counts.
type largest struct{ rows, released int }

func (l *largest) Claim(_ context.Context, asked *claims.Claims) (*claims.Leases, []error) {
	l.rows = max(l.rows, len(asked.Rows))
	leases := &claims.Leases{}
	for _, c := range asked.Rows {
		if c.Release {
			l.released++
			leases.Rows = append(leases.Rows, claims.Lease{})
			continue
		}
		leases.Rows = append(leases.Rows, claims.Lease{Amount: c.Bands[0].Wants, Lasts: time.Minute, Refresh: time.Second})
	}
	return leases, nil
}

// Clients whose ids are long, or no text, are told apart, and none passes for another.
func TestIDsOfAnyLengthAndBytesAreServed(t *testing.T) {
	var hosts said
	hosts.answer = claims.Lease{Lasts: time.Minute, Refresh: time.Second}
	w := &world{t: t, now: time.Now}
	w.serve(&hosts, doorman.ServerOptions{})
	seen := make(map[string]bool)
	long := strings.Repeat("x", rpc.MaxKeyLength)
	ids := []string{long, long + "y", long + "z", long[7:], long[:1000] + "\xff", "\xff", "\xfe", long[:2000-rpc.MaxKeyLength]}
	for _, id := range ids {
		hosts.claims = nil
		w.get(id, "fair", 1, nil)
		w.release(id, "fair")
		host := hosts.claims[0].Host
		if host != hosts.claims[1].Host || len(host) > rpc.MaxKeyLength || !utf8.ValidString(host) || !strings.HasPrefix(host, "client/") {
			t.Errorf("the client %.20q is %q, and releases as %q", id, host, hosts.claims[1].Host)
		}
		seen[host] = true
	}
	if len(seen) != len(ids) {
		t.Errorf("%d clients are %d hosts", len(ids), len(seen))
	}
	for host := range seen {
		hosts.claims = nil
		w.get(strings.TrimPrefix(host, "client/"), "fair", 1, nil)
		if len(host) == rpc.MaxKeyLength && hosts.claims[0].Host == host {
			t.Errorf("a client that calls itself as the hash of another passes for it: %q", host)
		}
	}
}

func TestCallersWithoutANameAreRefused(t *testing.T) {
	w := onLoopback(t, limits)
	r := twoResources()
	r.ClientId = new("")
	_, err := w.client.GetCapacity(t.Context(), r)
	wantCode(t, err, codes.InvalidArgument, "client_id is empty; send")
	_, err = w.client.ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: new("")})
	wantCode(t, err, codes.InvalidArgument, "client_id is empty")
	_, err = w.client.GetServerCapacity(t.Context(), &doormanpb.GetServerCapacityRequest{
		ServerId: new(""), Resource: []*doormanpb.ServerCapacityResourceRequest{{ResourceId: new("fair")}},
	})
	wantCode(t, err, codes.InvalidArgument, "server_id is empty")
	if n := w.counters()["doorman.requests_invalid"]; n != 3 {
		t.Errorf("%d invalid requests were counted", n)
	}
}

func TestServersDownstreamAreServedWhateverTheySay(t *testing.T) {
	band := func(priority, clients int64, wants float64) *doormanpb.PriorityBandAggregate {
		return &doormanpb.PriorityBandAggregate{Priority: &priority, NumClients: &clients, Wants: &wants}
	}
	many := make([]*doormanpb.PriorityBandAggregate, rpc.MaxBands+3)
	merged := make([]claims.Band, rpc.MaxBands)
	for i := range many {
		many[i] = band(int64(i), 1, 1)
	}
	for i := range merged {
		merged[i] = claims.Band{Priority: int64(len(many) - 1 - i), Clients: 1, Wants: 1}
	}
	merged[rpc.MaxBands-1].Clients, merged[rpc.MaxBands-1].Wants = 4, 4
	for _, row := range []struct {
		name  string
		bands []*doormanpb.PriorityBandAggregate
		want  []claims.Band // nil: it is left out
	}{
		{"no clients", []*doormanpb.PriorityBandAggregate{band(3, 0, 10)}, []claims.Band{{Priority: 3, Clients: 1, Wants: 10}}},
		{"negative clients", []*doormanpb.PriorityBandAggregate{band(0, 1, 1), band(3, -7, 10)}, []claims.Band{{Priority: 0, Clients: 1, Wants: 1}, {Priority: 3, Clients: 1, Wants: 10}}},
		{"too many clients", []*doormanpb.PriorityBandAggregate{band(3, math.MaxInt64, 10)}, []claims.Band{{Priority: 3, Clients: rpc.MaxCount, Wants: 10}}},
		{"infinite", []*doormanpb.PriorityBandAggregate{band(3, 1, math.Inf(1))}, []claims.Band{{Priority: 3, Clients: 1, Wants: rpc.MaxAmount}}},
		{"too many priorities", many, merged},
		{"NaN", []*doormanpb.PriorityBandAggregate{band(0, 1, math.NaN())}, nil},
		{"negative", []*doormanpb.PriorityBandAggregate{band(0, 1, -1)}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			hosts := said{answer: claims.Lease{Lasts: time.Minute, Refresh: time.Second}}
			w := &world{t: t, now: time.Now}
			w.serve(&hosts, doorman.ServerOptions{})
			got, err := w.client.GetServerCapacity(t.Context(), &doormanpb.GetServerCapacityRequest{
				ServerId: new("s"), Resource: []*doormanpb.ServerCapacityResourceRequest{
					{ResourceId: new("good"), Wants: []*doormanpb.PriorityBandAggregate{band(0, 1, 1)}}, {ResourceId: new("bent"), Wants: row.bands},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			served := 2
			if row.want == nil {
				served = 1
			}
			if len(got.GetResponse()) != served || len(hosts.claims) != served {
				t.Fatalf("%v of %v", got, hosts.claims)
			}
			if row.want != nil && !slices.Equal(hosts.claims[1].Bands, row.want) {
				t.Errorf("claimed %v, want %v", hosts.claims[1].Bands, row.want)
			}
		})
	}
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
	r := twoResources()
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

// A call whose Identify panics is refused, and the server goes on.
func TestACallThatCannotBeIdentifiedIsRefused(t *testing.T) {
	var hosts said
	hosts.answer = claims.Lease{Lasts: time.Minute, Refresh: time.Second}
	w := &world{t: t, now: time.Now}
	known := false
	w.serve(&hosts, doorman.ServerOptions{Identify: func(context.Context) (string, bool) {
		if !known {
			panic("no certificate")
		}
		return "alice", true
	}})
	request := &doormanpb.GetCapacityRequest{
		ClientId: new("x"),
		Resource: []*doormanpb.ResourceRequest{{ResourceId: new("fair"), Priority: new(int64(0)), Wants: new(1.0)}},
	}
	if _, err := w.client.GetCapacity(t.Context(), request); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("a call that cannot be identified: %v", err)
	}
	if known = true; len(hosts.claims) != 0 {
		t.Errorf("it is passed on: %v", hosts.claims)
	}
	if w.get("x", "fair", 1, nil); len(hosts.claims) != 1 {
		t.Errorf("the next call: %v", hosts.claims)
	}
}
