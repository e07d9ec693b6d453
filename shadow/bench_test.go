// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"testing"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter"
)

// BenchmarkAllow is a decision with a shadow next to one of x/time/rate
// without.
func BenchmarkAllow(b *testing.B) {
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
	run("bare-x-time-rate", rate.NewLimiter(1e12, 1e9).Allow)
	run("shadow-of-buckets", New(limiter.NewBucket(1e12, 1e9), limiter.NewBucket(1e12, 1e9), oldShadowNew).Allow)
	run("no-shadow", New(limiter.NewBucket(1e12, 1e9), limiter.NewBucket(1e12, 1e9), old).Allow)
	g := migrating(b, 1, oldShadowNew)
	run("shadow-of-shares-by-key", func() bool { return g.For("k").Allow() })
}

func TestADecisionAllocatesNothing(t *testing.T) {
	g := migrating(t, 1, newShadowOld)
	g.For("k").Allow()
	l := New(limiter.NewBucket(1, 1), limiter.NewBucket(1, 1), oldShadowNew)
	for name, allow := range map[string]func() bool{
		"shadow":       l.Allow,
		"key of group": func() bool { return g.For("k").Allow() },
	} {
		if n := testing.AllocsPerRun(1000, func() { allow() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
