// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc/usage"
)

// filled is an Aggregator whose keys are each used by so many hosts, the
// hosts' names, and the report that each of them sends every second.
func filled(tb testing.TB, name string, hosts, keys int) (*Aggregator, []string, *usage.Report) {
	tb.Helper()
	a, _ := custom(tb, cadence, onAverage(new(counting).weigh))
	if err := a.Configure(snapshot(tb, cadence, every(name))); err != nil {
		tb.Fatal(err)
	}
	texts := make([]string, keys)
	for i := range texts {
		texts[i] = fmt.Sprintf("frontend:domain-%09d", i)
	}
	u := reportOf(name, 100, 10, time.Second, texts...)
	names := make([]string, hosts)
	var g usage.Grants
	for h := range names {
		names[h] = fmt.Sprintf("10.0.%d.%d:7933", h/256, h%256)
		if err := a.Step(0, names[h], u, &g); err != nil {
			tb.Fatal(err)
		}
	}
	return a, names, u
}

// BenchmarkStep is one report of 100 keys, per key, when so many hosts use
// each of them. All report once a second.
func BenchmarkStep(b *testing.B) {
	for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameElastic, "mine"} {
		for _, hosts := range []int{1, 10, 100, 1000, 5000} {
			b.Run(fmt.Sprintf("%s/hosts=%d", name, hosts), func(b *testing.B) {
				const keys = 100
				a, names, u := filled(b, name, hosts, keys)
				var g usage.Grants
				now, i := time.Second, 0
				b.ReportAllocs()
				for b.Loop() {
					if err := a.Step(now, names[i%hosts], u, &g); err != nil {
						b.Fatal(err)
					}
					now += time.Second / time.Duration(hosts)
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
			})
		}
	}
}

// BenchmarkStepParallel is the same from all processors at once.
func BenchmarkStepParallel(b *testing.B) {
	const hosts, keys = 100, 100
	a, names, u := filled(b, algorithm.NameRequestWeighted, hosts, keys)
	var first atomic.Int64 // no two begin with the same host
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var g usage.Grants
		for i := int(first.Add(37)); pb.Next(); i++ {
			if err := a.Step(time.Second, names[i%hosts], u, &g); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}

// The memory of one key and host, and of a key by itself. Cadence takes 83 to 131
// bytes for the one, and 4.2 kB for the other.
func TestMemory(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, tt := range []struct {
		name        string
		hosts, keys int
		most        float64 // bytes for each key and host
	}{
		{algorithm.NameRequestWeighted, 100, 1000, 64},
		{algorithm.NameRequestWeighted, 1, 10_000, 450},
		{algorithm.NameElastic, 100, 1000, 64},
		{algorithm.NameElastic, 1, 10_000, 650},
	} {
		before := heap()
		a, _, u := filled(t, tt.name, tt.hosts, tt.keys)
		each := float64(heap()-before) / float64(tt.hosts*tt.keys)
		runtime.KeepAlive(a)
		runtime.KeepAlive(u)
		t.Logf("%s: %.0f bytes for each key and host, with %d hosts per key", tt.name, each, tt.hosts)
		if each > tt.most {
			t.Errorf("%s, %d hosts per key: %.0f bytes for each, more than %v", tt.name, tt.hosts, each, tt.most)
		}
	}
}
