// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
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
		answer(b, g, stage.Now()+second, 1, 0, usage.FloorNone, time.Hour)
		run(fmt.Sprintf("weighted-%v", limit), func() bool { return g.For("k").Allow() })
	}
}

// BenchmarkManyKeys is the hot path over so many keys, in random order. All have grants.
func BenchmarkManyKeys(b *testing.B) {
	for _, algorithm := range []string{"request-weighted", Auto} {
		for _, n := range []int{1_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", algorithm, n), func(b *testing.B) {
				g, keys := manyKeys(b, algorithm, n)
				now := stage.Now()
				for _, batch := range g.Manual().Report(now) {
					if err := g.Manual().Apply(now, batch, nil, sameGrants(n, algorithm == Auto)); err != nil {
						b.Fatal(err)
					}
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
}

// manyKeys is a host of ten with n keys under algorithm, each of which was used once.
func manyKeys(b *testing.B, algorithm string, n int, options ...Option) (g *Group, keys []string) {
	b.Helper()
	rule := weighted(1e6)
	rule.Key, rule.MaxKeys, rule.IdleAfter, rule.Algorithm = "*", n, time.Hour, algorithm
	e := newElsewhere(stage.Now)
	g = NewGroup(snapshot(b, rule), 10, append(options, WithRemote(Auto, e))...)
	for i := range n {
		keys = append(keys, fmt.Sprintf("frontend:domain-%09d", i))
		g.For(keys[i]).Allow()
	}
	return g, keys
}

// sameGrants are n that are alike, with tokens if the owner lends some.
func sameGrants(n int, lends bool) *usage.Grants {
	g := &usage.Grants{
		Weight: slices.Repeat([]float64{0.5}, n), Burst: slices.Repeat([]float64{100}, n), Used: make([]float64, n),
		Lease: slices.Repeat([]time.Duration{time.Minute}, n),
	}
	if lends {
		g.Tokens = slices.Repeat([]float64{50}, n)
	}
	return g
}

// BenchmarkReportAndApply is a round of a host with so many keys, each of them
// used in each round, without what carries it. What one owner answers is about
// keys that lie far from each other.
func BenchmarkReportAndApply(b *testing.B) {
	const n = 100_000
	for _, c := range []struct {
		algorithm string
		early     bool
	}{{"request-weighted", false}, {"request-weighted", true}, {Auto, true}} {
		for _, owners := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/early=%v/owners=%d", c.algorithm, c.early, owners), func(b *testing.B) {
				var options []Option
				if c.early && c.algorithm != Auto {
					options = append(options, WithAlgorithm(c.algorithm, dynamicconfig.Traits{Early: true}))
				}
				g, names := manyKeys(b, c.algorithm, n, options...)
				keys := make([]*Limiter, n)
				random, rows := rand.New(rand.NewPCG(1, 1)), make([][]int, owners)
				for i := range n {
					keys[i] = g.For(names[i])
					owner := random.IntN(owners)
					rows[owner] = append(rows[owner], i)
				}
				grants := make([]*usage.Grants, owners)
				for i := range owners {
					grants[i] = sameGrants(len(rows[i]), c.early)
				}
				now := stage.Now()
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					now += second
					for _, k := range keys {
						allowAt(k, now, 1)
					}
					b.StartTimer()
					for _, batch := range g.Manual().Report(now + second/100) {
						for i := range owners {
							if err := g.Manual().Apply(now+second/100, batch, rows[i], grants[i]); err != nil {
								b.Fatal(err)
							}
						}
						g.Manual().Done(batch)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
			})
		}
	}
}

// BenchmarkDecide is a decision that says why, by what the rule says.
func BenchmarkDecide(b *testing.B) {
	for name, change := range map[string]func(r *dynamicconfig.Rule){
		"plain": func(*dynamicconfig.Rule) {},
		"debt":  func(r *dynamicconfig.Rule) { r.MaxDebt = time.Second },
		"soft":  func(r *dynamicconfig.Rule) { r.Enforce = dynamicconfig.Soft },
	} {
		rule := alone(1e12, 1e9)
		change(&rule)
		k := NewGroup(snapshot(b, rule), 1).For("k")
		ctx := b.Context()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k.Decide(ctx, 1, 0)
			}
		})
		b.Run(name+"/allow", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k.Allow()
			}
		})
	}
}

func BenchmarkBucket(b *testing.B) {
	for name, limit := range map[string]rate.Limit{"pass": 1e9, "reject": 1} {
		ours, theirs := NewBucket(limit, 100), rate.NewLimiter(limit, 100)
		for which, allow := range map[string]func() bool{"headgate": ours.Allow, "x-time-rate": theirs.Allow} {
			b.Run(name+"/"+which, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					allow()
				}
			})
		}
	}
}

// A slot that is taken and given back. What it costs is the clock, two locks
// and release, which is the one thing that is allocated.
func BenchmarkTryAcquire(b *testing.B) {
	k := NewGroup(snapshot(b, inFlightRule(1000)), 1).For("k")
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if release, ok := k.TryAcquire(1); ok {
				sink = release
				release()
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if release, ok := k.TryAcquire(1); ok {
					release()
				}
			}
		})
	})
}

// sink makes what it is given escape, as callers do that keep it.
var sink func()

func TestATakenSlotAllocatesOnlyItsRelease(t *testing.T) {
	k := NewGroup(snapshot(t, inFlightRule(1000)), 1).For("k")
	if n := testing.AllocsPerRun(1000, func() {
		sink, _ = k.TryAcquire(1)
		sink()
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { h, _ := tryAcquireAt(k, 0, 1); h.Release() }); n > 0 {
		t.Errorf("%v allocations without a function", n)
	}
}

// BenchmarkConfigure is what a change of one rule takes at a host with so many rules, whose keys in
// use are 1,000.
func BenchmarkConfigure(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint("rules=", n), func(b *testing.B) {
			rules := make([]dynamicconfig.Rule, n)
			for i := range rules {
				rules[i] = weighted(1e9)
				rules[i].Key = fmt.Sprintf("frontend:domain-%09d", i)
			}
			before := snapshot(b, rules...)
			rules[0].Limit = 1e8
			after := snapshot(b, rules...)
			g := NewGroup(before, 1)
			for i := range 1_000 {
				g.For(rules[i].Key).Allow()
			}
			b.ReportAllocs()
			for b.Loop() {
				g.Configure(after)
				g.Configure(before)
			}
		})
	}
}
