// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// claimed is an account whose hosts want twice the capacity of 1 per host.
func claimed(a way, hosts int) (*Leases, *rand.Rand) {
	rnd := rand.New(rand.NewPCG(1, 2))
	l := a.NewLeases()
	bands := wants(1)
	for h := range hosts {
		bands[0].Wants = 4 * rnd.Float64()
		l.Claim(0, minute, Capacity{Amount: float64(hosts)}, uint32(h), Claim{Bands: bands})
	}
	return l, rnd
}

// BenchmarkClaim has hosts claim in no order, each with other wants than
// before.
func BenchmarkClaim(b *testing.B) {
	for _, a := range ways {
		for _, hosts := range []int{10, 1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%v/%d", a, hosts), func(b *testing.B) {
				l, rnd := claimed(a, hosts)
				capacity := Capacity{Amount: float64(hosts)}
				bands := wants(1)
				now := time.Duration(0)
				b.ReportAllocs()
				for b.Loop() {
					now += 8 * time.Second / time.Duration(hosts)
					bands[0].Wants = 4 * rnd.Float64()
					l.Expire(now, func(uint32) {})
					l.Claim(now, minute, capacity, rnd.Uint32N(uint32(hosts)), Claim{Bands: bands})
				}
			})
		}
	}
}

func BenchmarkClaimWithTheSameWants(b *testing.B) {
	const hosts = 10_000
	l, rnd := claimed(fair, hosts)
	bands := wants(2)
	b.ReportAllocs()
	for b.Loop() {
		l.Claim(0, minute, Capacity{Amount: hosts}, rnd.Uint32N(hosts), Claim{Bands: bands})
	}
}

func TestAHostTakesUpTo150Bytes(t *testing.T) {
	for _, hosts := range []int{1000, 10_000, 70_000, 100_000} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		l, _ := claimed(fair, hosts)
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := float64(after.HeapAlloc-before.HeapAlloc) / float64(l.Hosts())
		t.Logf("%d hosts: %.0f bytes each", hosts, each)
		if each > 150 {
			t.Errorf("each of %d hosts takes %.0f bytes", hosts, each)
		}
	}
}

func TestClaimsDoNotAllocate(t *testing.T) {
	for _, a := range ways {
		l, rnd := claimed(a, 1000)
		now := time.Duration(0)
		bands := []Band{{Priority: 2, Clients: 1, Wants: 1}, {Priority: 1, Clients: 1, Wants: 1}, {Priority: 0, Clients: 1, Wants: 1}}
		claim := func() {
			now += time.Millisecond
			for i := range bands {
				bands[i].Wants = rnd.Float64()
			}
			l.Expire(now, func(uint32) {})
			l.Claim(now, minute, Capacity{Amount: 1000}, rnd.Uint32N(10), Claim{Bands: bands})
		}
		for range 100 {
			claim()
		}
		if n := testing.AllocsPerRun(1000, claim); n != 0 {
			t.Errorf("%v: %v allocations for a claim", a, n)
		}
	}
}
