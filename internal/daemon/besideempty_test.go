// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/rpc/edge/httpapi"
	pb "github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// These measure what a decision costs beside a handler that does nothing, of
// the same server, with the client on the same processors:
//
//	go test -run '^$' -bench BesideEmpty -benchtime 10x ./internal/daemon
//
// One iteration is a round of each, of half a second. What is reported are
// medians over the rounds of the ratios within a round: rate and 99th
// percentile of Allow by those of the empty handler.
const (
	roundTime   = 500 * time.Millisecond
	connections = 4
	asking      = 64
)

const benchRules = `
limits:
  - {key: "hot:*", limit: 1e9/s, burst: 1e9, algorithm: %s}
`

// measured is one round: calls a second, and their 99th percentile.
type measured struct{ rate, p99 float64 }

// round has all asking call for roundTime.
func round(b *testing.B, call func(caller, i int) error) measured {
	b.Helper()
	var calls atomic.Int64
	var all sync.WaitGroup
	took := make([][]time.Duration, asking)
	began := time.Now()
	for c := range asking {
		took[c] = make([]time.Duration, 0, 1<<14)
		all.Go(func() {
			for i, last := 0, time.Now(); last.Sub(began) < roundTime; i++ {
				if err := call(c, i); err != nil {
					b.Error(err)
					return
				}
				now := time.Now()
				took[c] = append(took[c], now.Sub(last))
				last = now
				calls.Add(1)
			}
		})
	}
	all.Wait()
	elapsed := time.Since(began).Seconds()
	latencies := slices.Concat(took...)
	slices.Sort(latencies)
	if len(latencies) == 0 {
		b.Fatal("nobody called")
	}
	return measured{float64(calls.Load()) / elapsed, latencies[len(latencies)*99/100].Seconds()}
}

// beside compares in turns, in changing order.
func beside(b *testing.B, empty, allow func(caller, i int) error) {
	b.Helper()
	round(b, empty) // warms up
	round(b, allow)
	var rates, p99s, ratios, tails []float64
	for i := 0; b.Loop(); i++ {
		var e, a measured
		if i%2 == 0 {
			e, a = round(b, empty), round(b, allow)
		} else {
			a, e = round(b, allow), round(b, empty)
		}
		rates, p99s = append(rates, a.rate), append(p99s, a.p99*1e3)
		ratios, tails = append(ratios, a.rate/e.rate), append(tails, a.p99/e.p99)
	}
	b.ReportMetric(median(rates), "allow/s")
	b.ReportMetric(median(p99s), "p99-ms")
	b.ReportMetric(median(ratios), "rate-ratio")
	b.ReportMetric(median(tails), "p99-ratio")
	b.ReportMetric(0, "ns/op")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return (x[len(x)/2] + x[(len(x)-1)/2]) / 2
}

func BenchmarkAllowBesideEmpty(b *testing.B) {
	for _, algorithm := range []string{"elastic", "exact"} {
		for _, keys := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("grpc/algorithm=%s/keys=%d", algorithm, keys), func(b *testing.B) { benchGRPC(b, algorithm, keys) })
			b.Run(fmt.Sprintf("http/algorithm=%s/keys=%d", algorithm, keys), func(b *testing.B) { benchHTTP(b, algorithm, keys) })
		}
	}
}

// emptyMethod answers as Allow does when it grants, and does nothing else.
const emptyMethod = "/bench.Empty/Allow"

func serveEmpty(s grpc.ServiceRegistrar, _ *Daemon) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Empty",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Allow", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return &pb.AllowResponse{TokensGranted: 1}, decode(new(pb.AllowRequest))
		}}},
	}, struct{}{})
}

func startBench(b *testing.B, algorithm string, change func(c *Config)) *Daemon {
	b.Helper()
	c := Config{Limits: write(b, "limits.yaml", fmt.Sprintf(benchRules, algorithm)), Listen: "127.0.0.1:0", Edge: "127.0.0.1:0"}
	change(&c)
	before := services
	services = append(slices.Clone(services), serveEmpty)
	b.Cleanup(func() { services = before })
	d, err := Start(b.Context(), c, quiet)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return d
}

func benchGRPC(b *testing.B, algorithm string, keys int) {
	d := startBench(b, algorithm, func(*Config) {})
	conns := make([]*grpc.ClientConn, connections)
	for i := range conns {
		conn, err := grpc.NewClient(d.Edge(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	requests := make([]*pb.AllowRequest, keys)
	for i := range requests {
		requests[i] = &pb.AllowRequest{Namespace: "hot", BucketName: fmt.Sprintf("bucket-%06d", i), TokensRequested: 1}
	}
	call := func(method string) func(caller, i int) error {
		return func(caller, i int) error {
			r := new(pb.AllowResponse)
			err := conns[caller%connections].Invoke(b.Context(), method, requests[(caller*7919+i)%keys], r)
			if err == nil && r.Status != pb.AllowResponse_OK {
				err = fmt.Errorf("not granted: %v", r)
			}
			return err
		}
	}
	beside(b, call(emptyMethod), call(pb.QuotaService_Allow_FullMethodName))
}

func benchHTTP(b *testing.B, algorithm string, keys int) {
	d := startBench(b, algorithm, func(c *Config) { c.HTTP = "127.0.0.1:0" })
	empty := httpapi.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = empty.Serve(l) })
	defer served.Wait()
	defer empty.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: asking, MaxConnsPerHost: asking}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	bodies := make([][]byte, keys)
	for i := range bodies {
		bodies[i] = fmt.Appendf(nil, `{"key": "hot:bucket-%06d"}`, i)
	}
	call := func(address string) func(caller, i int) error {
		url := "http://" + address + "/v1/allow"
		return func(caller, i int) error {
			q, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(bodies[(caller*7919+i)%keys]))
			if err != nil {
				return err
			}
			q.Header.Set("Content-Type", "application/json")
			r, err := client.Do(q)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if r.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", r.StatusCode)
			}
			return err
		}
	}
	beside(b, call(l.Addr().String()), call(d.HTTP()))
}
