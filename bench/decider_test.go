// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uber/cadence/common/dynamicconfig/dynamicproperties"
	"github.com/uber/cadence/common/log"
	"github.com/uber/cadence/common/metrics"
	theirs "github.com/uber/cadence/common/quotas/global/algorithm"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// reporter makes a function for one goroutine, which is one report and its
// answer; hosts take turns.
type reporter func() func() error

// Hosts report in the same order in each interval, and have rows in the order of their
// first reports. So the rows of one host often lie beside those of the host before.
var shuffled = flag.Bool("shuffled", false, "hosts report to a decider in another order than the first time")

// BenchmarkDecider is one report of so many keys, and the grants for it, while
// so many hosts use each of them.
func BenchmarkDecider(b *testing.B) {
	for _, keys := range []int{1, 100, 10_000} {
		for _, hosts := range []int{1, 10, 100, 1_000, 5_000} {
			if keys*hosts > *pairs {
				continue
			}
			keys, hosts := size(keys, 20), size(hosts, 20)
			b.Run(fmt.Sprintf("keys=%d/hosts=%d", keys, hosts), func(b *testing.B) {
				from := addresses(hosts)
				for _, name := range ours {
					decide(b, name, keys, sync.OnceValue(func() reporter {
						u := reportOf(name, keys)
						c := newDecider(b, u, from)
						return func() func() error { return c.reporter(u) }
					}))
				}
				decide(b, "cadence", keys, sync.OnceValue(func() reporter {
					load, limits := cadenceLoad(reportOf(requestWeighted, keys))
					a := newCadenceDecider(b, load, from)
					var reports atomic.Int64
					return func() func() error {
						return func() error {
							id := theirs.Identity(from[int(reports.Add(1))%hosts])
							if err := a.Update(theirs.UpdateParams{ID: id, Load: load, Elapsed: interval}); err != nil {
								return err
							}
							_, err := a.HostUsage(id, limits)
							return err
						}
					}
				}))
			})
		}
	}
}

// decide runs what build makes, which is made once and only if it runs. The fastest report
// says what one costs on a machine that other work shares.
func decide(b *testing.B, by string, keys int, build func() reporter) {
	b.Run("mode=serial/by="+by, func(b *testing.B) {
		report := warm(b, build())
		b.ReportAllocs()
		fastest := time.Duration(math.MaxInt64)
		for b.Loop() {
			began := time.Now()
			if err := report(); err != nil {
				b.Fatal(err)
			}
			fastest = min(fastest, time.Since(began))
		}
		b.ReportMetric(float64(fastest), "fastest-ns/op")
		b.ReportMetric(float64(keys), "keys/op")
	})
	if keys == 1 {
		return // all would want the same key
	}
	b.Run("mode=parallel/by="+by, func(b *testing.B) {
		ready := make(chan func() error, runtime.GOMAXPROCS(0))
		for range cap(ready) {
			ready <- warm(b, build())
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			report := <-ready
			for pb.Next() {
				if err := report(); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.ReportMetric(float64(keys), "keys/op")
	})
}

// warm returns one of make's functions after its first report, which may
// allocate what later ones use again.
func warm(b *testing.B, make reporter) func() error {
	report := make()
	if err := report(); err != nil {
		b.Fatal(err)
	}
	return report
}

// newDecider is headgate's, and has had a report from each host.
func newDecider(b *testing.B, u *usage.Report, addresses []string) *clockwork {
	b.Helper()
	snapshot, err := dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: interval},
		Rules:      []dynamicconfig.Rule{{Key: "*", Limit: 100_000, Algorithm: u.Algorithm}},
	}.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	a := aggregator.New(algorithm.Builtin(), snapshot)
	c := &clockwork{Aggregator: a, addresses: addresses}
	report := c.reporter(u)
	for range addresses {
		if err := report(); err != nil {
			b.Fatal(err)
		}
	}
	if *shuffled {
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	}
	return c
}

// clockwork is an Aggregator to which each host reports once per interval.
type clockwork struct {
	*aggregator.Aggregator

	addresses []string
	reports   atomic.Int64
}

// reporter returns a function for one goroutine that reports u for the host
// whose turn it is.
func (c *clockwork) reporter(u *usage.Report) func() error {
	var g usage.Grants
	hosts := len(c.addresses)
	return func() error {
		i := c.reports.Add(1)
		return c.Step(time.Duration(i)*interval/time.Duration(hosts), c.addresses[int(i)%hosts], u, &g)
	}
}

// reportOf is a report of so many keys.
func reportOf(name string, keys int) *usage.Report {
	u := &usage.Report{
		Algorithm: name,
		Keys:      names(keys),
		Elapsed:   slices.Repeat([]time.Duration{interval}, keys),
	}
	for i := range keys {
		u.Allowed = append(u.Allowed, int64(i*7%1000))
		u.Rejected = append(u.Rejected, int64(i%10/9*40))
		u.Weight = append(u.Weight, float64(i%8)/8)
		if name == elastic {
			u.Wants = append(u.Wants, float64(u.Allowed[i]+u.Rejected[i])/interval.Seconds())
		}
	}
	return u
}

// addresses are those of so many hosts.
func addresses(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("10.0.%d.%d:7933", i/250, i%250+1)
	}
	return list
}

// newCadenceDecider is Cadence's, and has had a report from each host.
func newCadenceDecider(b *testing.B, load map[theirs.Limit]theirs.Requests, addresses []string) theirs.RequestWeighted {
	b.Helper()
	config := cadenceConfig(b, "history.globalRatelimiterGCAfter:\n- value: 1h\n")
	a, err := theirs.New(metrics.NewNoopMetricsClient(), log.NewNoop(), theirs.Config{
		NewDataWeight:  config.GetFloat64Property(dynamicproperties.HistoryGlobalRatelimiterNewDataWeight),
		UpdateInterval: config.GetDurationProperty(dynamicproperties.GlobalRatelimiterUpdateInterval),
		DecayAfter:     config.GetDurationProperty(dynamicproperties.HistoryGlobalRatelimiterDecayAfter),
		GcAfter:        config.GetDurationProperty(dynamicproperties.HistoryGlobalRatelimiterGCAfter),
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, address := range addresses {
		if err := a.Update(theirs.UpdateParams{ID: theirs.Identity(address), Load: load, Elapsed: interval}); err != nil {
			b.Fatal(err)
		}
	}
	return a
}

// cadenceLoad is u in Cadence's types.
func cadenceLoad(u *usage.Report) (map[theirs.Limit]theirs.Requests, []theirs.Limit) {
	load := make(map[theirs.Limit]theirs.Requests, u.Len())
	limits := make([]theirs.Limit, u.Len())
	for i, key := range u.Keys {
		limits[i] = theirs.Limit(key)
		load[limits[i]] = theirs.Requests{Accepted: int(u.Allowed[i]), Rejected: int(u.Rejected[i])}
	}
	return load, limits
}

// BenchmarkDeciderMemory is the heap that a decider takes for each pair of key
// and host. With one host that is what a key takes.
func BenchmarkDeciderMemory(b *testing.B) {
	for _, of := range []struct{ keys, hosts int }{{10_000, 1}, {1_000, 100}} {
		keys, from := size(of.keys, 20), addresses(size(of.hosts, 20))
		b.Run(fmt.Sprintf("keys=%d/hosts=%d", keys, len(from)), func(b *testing.B) {
			for _, name := range ours {
				b.Run("by="+name, func(b *testing.B) {
					u := reportOf(name, keys)
					retained(b, keys*len(from), "heap-B/pair", func() any { return newDecider(b, u, from) })
					runtime.KeepAlive(u)
				})
			}
			b.Run("by=cadence", func(b *testing.B) {
				load, _ := cadenceLoad(reportOf(requestWeighted, keys))
				retained(b, keys*len(from), "heap-B/pair", func() any { return newCadenceDecider(b, load, from) })
				runtime.KeepAlive(load)
			})
		})
	}
}

// BenchmarkStall is how long a report of one key takes while nothing else
// happens, and while others report 10,000 keys, that one included, over and
// over.
func BenchmarkStall(b *testing.B) {
	keys, from := size(10_000, 20), addresses(10)
	for _, while := range []string{"quiet", "report"} {
		b.Run(fmt.Sprintf("keys=%d/while=%s/by=headgate", keys, while), func(b *testing.B) {
			u := reportOf(requestWeighted, keys)
			c := newDecider(b, u, from)
			one := c.reporter(reportOf(requestWeighted, 1))
			if while == "report" {
				all := c.reporter(u)
				meanwhile(b, func() {
					if err := all(); err != nil {
						b.Error(err)
					}
				})
			}
			latencies(b, func(int) {
				if err := one(); err != nil {
					b.Error(err)
				}
			})
		})
	}
}
