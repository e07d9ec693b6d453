// SPDX-License-Identifier: Apache-2.0

//go:build unix

package doorman_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// Benchmarks have so many callers over so many connections, all in the
// process of the server.
const (
	benchCallers     = 64
	benchConnections = 4
)

// empty answers without looking: what the transport alone costs.
type empty struct {
	doormanpb.UnimplementedCapacityServer

	response *doormanpb.GetCapacityResponse
}

func (e empty) GetCapacity(context.Context, *doormanpb.GetCapacityRequest) (*doormanpb.GetCapacityResponse, error) {
	return e.response, nil
}

// BenchmarkGetCapacity is one resource for one client over loopback, of so
// many that there are.
func BenchmarkGetCapacity(b *testing.B) {
	b.Run("by=empty", func(b *testing.B) {
		benchCapacity(b, 100, "fair", empty{response: &doormanpb.GetCapacityResponse{Response: []*doormanpb.ResourceResponse{
			{ResourceId: new("fair"), Gets: lease(1, time.Now()), SafeCapacity: new(1.0)},
		}}})
	})
	for _, resource := range []string{"proportional", "fair"} {
		for _, clients := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("by=node/algorithm=%s/clients=%d", resource, clients), func(b *testing.B) {
				benchCapacity(b, clients, resource, doorman.NewServer(benchClaimant(b), doorman.ServerOptions{}))
			})
		}
	}
}

// benchClaimant asks the aggregator of a node that owns every key.
func benchClaimant(b *testing.B) *claims.Claimant {
	s, err := dynamicconfig.Parse("limits.yaml", []byte(benchLimits))
	if err != nil {
		b.Fatal(err)
	}
	a := aggregator.New(algorithm.Builtin(), s)
	return &claims.Claimant{Host: "me", Placement: everywhere{}, Self: "me", Here: a}
}

// BenchmarkHandler is the same without gRPC: what this package, the claim's
// way to an owner in this process, and the owner cost.
func BenchmarkHandler(b *testing.B) {
	s := doorman.NewServer(benchClaimant(b), doorman.ServerOptions{})
	r := &doormanpb.GetCapacityRequest{ClientId: new("host-1.example.org:4711"), Resource: []*doormanpb.ResourceRequest{
		{ResourceId: new("fair"), Priority: new(int64(0)), Wants: new(5.0), Has: lease(1, time.Now().Add(time.Hour))},
	}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.GetCapacity(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// Every request is calculated anew: the rule of five seconds would make them
// cheap.
const benchLimits = `
limits:
  - {key: "fair", limit: 100000/s, algorithm: fair-share, lease: 10m, learning: 0s, recalculate: 0s}
  - {key: "proportional", limit: 100000/s, algorithm: proportional-share, lease: 10m, learning: 0s, recalculate: 0s}
`

func benchCapacity(b *testing.B, clients int, resource string, s doormanpb.CapacityServer) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer()
	doormanpb.RegisterCapacityServer(server, s)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	var conns []doormanpb.CapacityClient
	for range benchConnections {
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, doormanpb.NewCapacityClient(conn))
	}
	// The demand of a client varies around three times its fair share.
	ask := func(client doormanpb.CapacityClient, n int64) error {
		i := n % int64(clients)
		wants := float64(100_000/clients) * float64(1+(n*7+i)%5)
		response, err := client.GetCapacity(context.Background(), &doormanpb.GetCapacityRequest{
			ClientId: new(fmt.Sprintf("host-%d.example.org:4711", i)),
			Resource: []*doormanpb.ResourceRequest{{ResourceId: &resource, Priority: new(int64(0)), Wants: &wants, Has: lease(1, time.Now().Add(time.Hour))}},
		})
		if err == nil && (len(response.GetResponse()) != 1 || response.GetResponse()[0].SafeCapacity == nil) {
			err = fmt.Errorf("refused: %v", response)
		}
		return err
	}
	for n := range clients {
		if err := ask(conns[0], int64(n)); err != nil {
			b.Fatal(err)
		}
	}
	var next, caller atomic.Int64
	used := testrun.CPUTime(b)
	b.SetParallelism(benchCallers / 2)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		client := conns[caller.Add(1)%benchConnections]
		for pb.Next() {
			if err := ask(client, next.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	// What holds when other programs use the machine too.
	b.ReportMetric(float64((testrun.CPUTime(b)-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
