// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/usage"
)

// BenchmarkEdge is one report through the edge of a lone daemon, over loopback,
// by many callers of one client at once. The owner is in the same process, so
// that it is what gRPC and forwarding take, on top of deciding.
func BenchmarkEdge(b *testing.B) {
	for _, keys := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			d, err := Start(b.Context(), config(b), quiet)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = d.Stop(b.Context()) }()
			c, err := rpcgrpc.NewClient([]string{d.Edge()}, rpcgrpc.ClientOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			u := &usage.Report{Algorithm: "elastic"}
			for i := range keys {
				u.Keys, u.Allowed, u.Rejected = append(u.Keys, fmt.Sprint("k", i)), append(u.Allowed, 10), append(u.Rejected, 0)
				u.Elapsed, u.Weight = append(u.Elapsed, time.Second), append(u.Weight, 0.5)
			}
			payload, err := usage.Columnar{}.EncodeReport(u)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Update(b.Context(), "me", payload); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N*keys)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}
