// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
)

// BenchmarkReport is what a host does once per interval about keys that were
// all used since: it gathers usage and applies the answer. What the decider
// and the wire cost is not in it.
func BenchmarkReport(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		n = size(n, 20)
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			keys := names(n)
			for _, algorithm := range ours {
				b.Run("by="+algorithm, func(b *testing.B) {
					g := host(b, dynamicconfig.Rule{Limit: plenty, Algorithm: algorithm})
					granted(b, g, float64(plenty), keys...)
					a := newAnswer(n, float64(plenty))
					b.ReportAllocs()
					now, reported := stage.Now(), n
					for b.Loop() {
						b.StopTimer()
						now = now.Add(interval)
						for _, key := range keys {
							g.For(key).Stage().Take(context.Background(), stage.Request{Now: now, N: 1, Kind: stage.Final})
						}
						b.StartTimer()
						for _, batch := range driver.Of(g).Report(now) {
							reported = batch.Usage.Len()
							a.apply(b, g, now, batch)
							driver.Of(g).Done(batch)
						}
					}
					if reported != n {
						b.Fatalf("%d keys of %d were reported", reported, n)
					}
					b.ReportMetric(float64(n), "keys/op")
				})
			}
			b.Run("by=cadence", func(b *testing.B) {
				c := newCadence(b, "global", int(plenty), keys...)
				grants := c.grants(keys)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					for _, key := range keys {
						c.For(key).Allow()
					}
					b.StartTimer()
					c.tick(grants)
				}
				b.ReportMetric(float64(n), "keys/op")
			})
		})
	}
}

// BenchmarkPause is how long single decisions take while the host does nothing
// else, and while it reports its keys over and over.
func BenchmarkPause(b *testing.B) {
	n := size(100_000, 20)
	keys := names(n)
	for _, while := range []string{"quiet", "report"} {
		b.Run(fmt.Sprintf("keys=%d/while=%s/by=headgate", n, while), func(b *testing.B) {
			g := host(b, dynamicconfig.Rule{Limit: plenty, Algorithm: requestWeighted})
			granted(b, g, float64(plenty), keys...)
			if while == "report" {
				a := newAnswer(n, float64(plenty))
				meanwhile(b, func() {
					now := stage.Now()
					for _, batch := range driver.Of(g).Report(now) {
						a.apply(b, g, now, batch)
						driver.Of(g).Done(batch)
					}
				})
			}
			latencies(b, func(i int) { g.For(keys[i%n]).Allow() })
		})
	}
}
