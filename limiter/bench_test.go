// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/rpc"
)

// BenchmarkDecision is the whole hot path, find the key and decide, next to
// an x/time/rate Limiter in hand.
func BenchmarkDecision(b *testing.B) {
	run := func(name string, allow func() bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				allow()
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					allow()
				}
			})
		})
	}
	bare := rate.NewLimiter(1e12, 1e9)
	run("bare-x-time-rate", bare.Allow)
	for _, limit := range []rate.Limit{1e12, 1} {
		rule := weighted(limit)
		rule.IdleAfter = time.Hour
		g := NewGroup(snapshot(b, rule), 1)
		g.For("k").Allow()
		answer(b, g, Now()+second, 1, 0, rpc.FloorNone, time.Hour)
		run(fmt.Sprintf("weighted-%v", limit), func() bool { return g.For("k").Allow() })
	}
}

// BenchmarkManyKeys is the hot path over so many keys, in random order.
func BenchmarkManyKeys(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rule := weighted(1e9)
			rule.Key, rule.MaxKeys = "*", n
			g := NewGroup(snapshot(b, rule), 1)
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("frontend:domain-%09d", i)
				g.For(keys[i]).Allow()
			}
			rand.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				g.For(keys[i%n]).Allow()
				i++
			}
		})
	}
}

func BenchmarkReportAndApply(b *testing.B) {
	const n = 100_000
	rule := weighted(1e6)
	rule.Key, rule.MaxKeys, rule.IdleAfter = "*", n, time.Hour
	g := NewGroup(snapshot(b, rule), 10)
	for i := range n {
		g.For(fmt.Sprintf("frontend:domain-%09d", i)).Allow()
	}
	b.ReportAllocs()
	now := Now()
	for b.Loop() {
		now += second
		answer(b, g, now, 0.5, 100, rpc.FloorUnused, time.Minute)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
}
