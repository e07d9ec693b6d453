// SPDX-License-Identifier: Apache-2.0

package ringpop_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate/ringpop"
)

var sizes = []int{10, 100, 1000}

// BenchmarkOwner looks up 4,096 keys of 24 bytes in turn. With many more it
// would measure how fast the keys themselves come from memory.
func BenchmarkOwner(b *testing.B) {
	keys := benchmarkKeys()
	for _, n := range sizes {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			ring := mustNew(b, someHosts(n), 0)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				ring.Owner(keys[i%len(keys)])
				i++
			}
		})
	}
}

func BenchmarkLiveOwnerParallel(b *testing.B) {
	keys := benchmarkKeys()
	for _, n := range sizes {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			live := ringpop.NewLive(0)
			if err := live.Set(someHosts(n)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					live.Owner(keys[i%len(keys)])
				}
			})
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			hosts := someHosts(n)
			b.ReportAllocs()
			for b.Loop() {
				mustNew(b, hosts, 0)
			}
		})
	}
}

func BenchmarkAddOne(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			ring := mustNew(b, someHosts(n), 0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ring.With(ringpop.Host{Address: "10.0.0.128:1"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRemoveOne(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			ring := mustNew(b, someHosts(n), 0)
			b.ReportAllocs()
			for b.Loop() {
				ring.Without("10.0.0.5:7933")
			}
		})
	}
}

func benchmarkKeys() []string {
	return slices.Collect(someKeys(1 << 12))
}
