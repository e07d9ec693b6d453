// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// nothing is the decider of an empty call.
type nothing struct{}

func (nothing) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	return payload, nil
}

// BenchmarkExact is takes from a bucket on loopback, beside empty calls over the
// same transport.
func BenchmarkExact(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("empty-call/callers=%d", callers), func(b *testing.B) {
			peers, address := served(b, nothing{})
			peer, err := peers.Peer(string(address))
			if err != nil {
				b.Fatal(err)
			}
			payload := &anypb.Any{TypeUrl: usage.TakesTypeURL, Value: make([]byte, 60)}
			timed(b, callers, func() bool {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_, err := peer.Update(ctx, "host", payload)
				return err == nil
			})
		})
		b.Run(fmt.Sprintf("take/callers=%d", callers), func(b *testing.B) {
			a := aggregator.New(algorithm.Builtin(), limits(b, `
limits:
  - {key: "k", limit: 1000000000/s, algorithm: exact}
`))
			taker := &ask.Taker{Host: "host", Timeout: time.Second}
			taker.Peers, taker.Placement = served(b, a)
			timed(b, callers, func() bool {
				took, err := taker.Take(context.Background(), usage.Take{Key: "k", Tokens: 1})
				return err == nil && took.OK
			})
		})
	}
}

// everything is owned by one host.
type everything string

func (e everything) Owner(string) string { return string(e) }

// served is d on loopback, by way of a client.
func served(b *testing.B, d rpc.Decider) (rpc.Peers, everything) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := rpcyarpc.NewServer(l, d, rpcyarpc.ServerOptions{})
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Stop(context.Background()) })
	client, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return client, everything(l.Addr().String())
}

// timed has so many callers do, and reports how long they wait.
func timed(b *testing.B, callers int, do func() bool) {
	b.Helper()
	do() // connects
	took := make([][]time.Duration, callers)
	failed := make([]int, callers)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for range b.N/callers + 1 {
				began := time.Now()
				if !do() {
					failed[c]++
				}
				took[c] = append(took[c], time.Since(began))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	sum := 0
	for _, n := range failed {
		sum += n
	}
	b.ReportMetric(float64(sum), "failed")
}
