// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/aclements/go-moremath/stats"
	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/shadow"
)

var pairs = flag.Int("pairs", 10_000_000, "the most pairs of key and host at one decider; each takes about 100 bytes")

const (
	requestWeighted = algorithm.NameRequestWeighted
	elastic         = algorithm.NameElastic
	interval        = 3 * time.Second
	plenty          = rate.Limit(1e9) // a limit that nothing here reaches
)

// ours are the algorithms that are measured.
var ours = []string{requestWeighted, elastic}

// size is n, or little with -short.
func size(n, little int) int {
	if testing.Short() {
		return min(n, little)
	}
	return n
}

// contender decides about key i of those there are; any i ≥ 0 will do.
type contender struct {
	by    string
	allow func(i int) bool
}

// compare runs every contender from one goroutine, then from all processors.
func compare(b *testing.B, contenders ...contender) {
	for _, c := range contenders {
		b.Run("mode=serial/by="+c.by, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.allow(i)
				i++
			}
		})
	}
	for _, c := range contenders {
		b.Run("mode=parallel/by="+c.by, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.IntN(1 << 30); pb.Next(); i++ {
					c.allow(i)
				}
			})
		})
	}
}

// names are n keys of 24 bytes, in random order.
func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("frontend:tenant-%08d", i)
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// host is a group as headgate.New makes it, of one host among ten, under one
// rule for all keys.
func host(b *testing.B, rule dynamicconfig.Rule) *limiter.Group {
	b.Helper()
	rule.Key = "*"
	rule.IdleAfter, rule.MaxKeys, rule.Lease = 24*time.Hour, 1_000_000, 24*time.Hour
	s, err := dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: interval},
		Rules:      []dynamicconfig.Rule{rule},
	}.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	// With metrics, though nobody reads them.
	scope, closer := tally.NewRootScope(tally.ScopeOptions{Reporter: tally.NullStatsReporter}, 0)
	b.Cleanup(func() { _ = closer.Close() })
	return limiter.NewGroup(s, 10, driver.WithSeed(1), limiter.WithScope(scope),
		limiter.WithMigration(shadow.Migrator()))
}

// granted brings all keys to life and grants each the whole limit, under all algorithms
// that it is used under: hosts report no others.
func granted(b *testing.B, g *limiter.Group, burst float64, keys ...string) {
	b.Helper()
	for _, key := range keys {
		g.For(key).Allow()
	}
	a := newAnswer(len(keys), burst)
	now := stage.Now()
	for _, batch := range driver.Of(g).Report(now) {
		if n := batch.Usage.Len(); n != len(keys) {
			b.Fatalf("%d keys of %d were reported under %s", n, len(keys), batch.Usage.Algorithm)
		}
		a.apply(b, g, now, batch)
	}
	status, ok := g.Inspect(keys[0])
	if !ok {
		b.Fatalf("%q is not live", keys[0])
	}
	for _, s := range status.Shares {
		if s.Fallback && s.Allowed+s.Rejected > 0 {
			b.Fatalf("%q is not granted under %s", keys[0], s.Algorithm)
		}
	}
}

// answer is what a decider might say to a report of so many keys.
type answer struct{ grants usage.Grants }

func newAnswer(n int, burst float64) *answer {
	return &answer{usage.Grants{
		Weight: slices.Repeat([]float64{1}, n),
		Burst:  slices.Repeat([]float64{burst}, n),
		Used:   slices.Repeat([]float64{100}, n),
		Lease:  slices.Repeat([]time.Duration{24 * time.Hour}, n),
		Tokens: slices.Repeat([]float64{burst}, n),
		Floor:  usage.FloorUnused,
	}}
}

// apply answers the whole of batch, which has at most as many keys as a.
func (a *answer) apply(b *testing.B, g *limiter.Group, now stage.Instant, batch *driver.Batch) {
	n := batch.Usage.Len()
	grants := usage.Grants{
		Weight: a.grants.Weight[:n],
		Burst:  a.grants.Burst[:n],
		Used:   a.grants.Used[:n],
		Lease:  a.grants.Lease[:n],
		Floor:  a.grants.Floor,
	}
	if batch.Usage.Algorithm == elastic {
		grants.Tokens, grants.Floor = a.grants.Tokens[:n], usage.FloorNone
	}
	if err := driver.Of(g).Apply(now, batch, nil, &grants); err != nil {
		b.Fatal(err)
	}
}

// latencies runs op again and again, and reports how long single calls took.
// The clock is part of it, about 25 ns.
func latencies(b *testing.B, op func(i int)) {
	kept := make([]float64, 0, 1<<22) // the later ones only count for the maximum
	longest := 0.0
	i := 0
	for b.Loop() {
		before := stage.Now()
		op(i)
		took := float64(stage.Now().Sub(before))
		longest = max(longest, took)
		if len(kept) < cap(kept) {
			kept = append(kept, took)
		}
		i++
	}
	sample := stats.Sample{Xs: kept}
	sample.Sort()
	b.ReportMetric(sample.Quantile(0.5), "p50-ns")
	b.ReportMetric(sample.Quantile(0.99), "p99-ns")
	b.ReportMetric(sample.Quantile(0.9999), "p99.99-ns")
	b.ReportMetric(longest, "max-ns")
}

// meanwhile runs f on a goroutine of its own until the benchmark ends.
func meanwhile(b *testing.B, f func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				f()
			}
		}
	}()
	b.Cleanup(func() {
		close(stop)
		<-stopped
	})
}

// retained reports, as unit, the heap that one of n things takes which build
// makes. What build returns is kept until it is measured.
func retained(b *testing.B, n int, unit string, build func() any) {
	var bytes float64
	for b.Loop() {
		before := heap()
		kept := build()
		bytes = float64(heap()) - float64(before)
		runtime.KeepAlive(kept)
	}
	b.ReportMetric(bytes/float64(n), unit)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
