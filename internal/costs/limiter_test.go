// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/shadow"
)

const (
	plenty = rate.Limit(1e9)
	scarce = rate.Limit(1e-6)
)

// group has one rule for all keys.
func group(rule dynamicconfig.Rule) *limiter.Group {
	rule.Key = "*"
	return limiter.NewGroup(rules(rule), 10,
		driver.WithSeed(1),
		limiter.WithRemote(limiter.Auto, pays{}),
		limiter.WithMigration(shadow.Migrator()))
}

// pays is an owner that grants what it is asked for, at once.
type pays struct{}

func (pays) Do(context.Context, stage.Operation) (stage.Outcome, error) {
	return stage.Outcome{OK: true}, nil
}

func under(name string, limit rate.Limit) dynamicconfig.Rule {
	return dynamicconfig.Rule{Limit: limit, Burst: max(float64(limit), 1), Algorithm: name}
}

// answers are grants for n keys under the algorithm called name.
func answers(name string, n int) *usage.Grants {
	g := &usage.Grants{
		Weight: column(n, 0.5), Burst: column(n, 1e9), Used: column(n, 100.0),
		Lease: column(n, 20*time.Hour), Floor: usage.FloorUnused,
	}
	if name != algorithm.NameRequestWeighted {
		g.Floor, g.Tokens = usage.FloorNone, column(n, 500.0)
	}
	return g
}

// grant has g report at now, and answers every key of it.
func grant(g *limiter.Group, now stage.Instant) {
	for _, b := range driver.Of(g).Report(now) {
		check(driver.Of(g).Apply(now, b, nil, answers(b.Usage.Algorithm, b.Usage.Len())))
	}
}

// decisions are what a request waits for.
func decisions() []operation {
	live := func(rule dynamicconfig.Rule, decide func(*limiter.Group) bool, want bool) func() (prepare, run func()) {
		return func() (prepare, run func()) {
			const key = "frontend:orders"
			g := group(rule)
			g.For(key).Allow()
			grant(g, stage.Now())
			if rule.Limit == scarce {
				g.For(key).AllowN(time.Now(), g.For(key).Burst())
			}
			status, ok := g.Inspect(key)
			if !ok || status.Shares[0].Fallback || decide(g) != want {
				panic(fmt.Sprintf("not ruled by a grant, or a decision other than %v: %+v", want, status))
			}
			return nil, func() { decide(g) }
		}
	}
	allow := func(g *limiter.Group) bool { return g.For("frontend:orders").Allow() }
	later := time.Now().Add(time.Hour)
	allowN := func(g *limiter.Group) bool { return g.For("frontend:orders").AllowN(later, 2) }

	var all []operation
	for _, name := range onHosts {
		again := name == algorithm.NameRequestWeighted // as under elastic
		all = append(all, operation{name: "for-allow/" + name, slow: again, per: "call", units: 1, runs: 500, bench: live(under(name, plenty), allow, true)})
		if name != limiter.Auto { // there, the owner is asked for what the host refuses
			all = append(all, operation{name: "for-reject/" + name, slow: again, per: "call", units: 1, runs: 500, bench: live(under(name, scarce), allow, false)})
		}
		all = append(all, operation{name: "for-allow-n/" + name, slow: again, per: "call", units: 1, runs: 500, bench: live(under(name, plenty), allowN, true)})
	}
	migrating := dynamicconfig.Rule{Limit: plenty, Migration: &dynamicconfig.Migration{
		From: algorithm.NameRequestWeighted, To: algorithm.NameElastic, Mode: dynamicconfig.ModeOldShadowNew,
	}}
	return append(all,
		operation{name: "for-allow/shadow", per: "call", units: 1, runs: 500, bench: live(migrating, allow, true)},
		operation{name: "for/100000-keys", per: "call", units: lookups, runs: 1, slow: true, bench: lookup})
}

const lookups = 10_000

// lookup looks up some of many keys, in random order.
func lookup() (prepare, run func()) {
	const n = 100_000
	g := group(under(algorithm.NameRequestWeighted, plenty))
	all := keys(n)
	for _, k := range all {
		g.For(k).Allow()
	}
	some := make([]string, lookups)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range some {
		some[i] = all[r.IntN(n)]
	}
	return nil, func() {
		for _, k := range some {
			g.For(k)
		}
	}
}

// reports are what a host does in the background.
func reports() []operation {
	var all []operation
	for _, name := range onHosts {
		const n, held = 10_000, 40_000
		all = append(all,
			operation{name: "report-apply/" + name, per: "key", units: n, runs: 1, slow: true, bench: func() (prepare, run func()) {
				return reporting(name, n)
			}},
			operation{name: "host-memory/" + name, per: "key", units: held, hold: func() any {
				g := group(under(name, 1000))
				use(g, 0, keys(held))
				grant(g, stage.Instant(interval))
				use(g, stage.Instant(interval), keys(held))
				grant(g, stage.Instant(2*interval))
				return g
			}})
	}
	return all
}

// use uses each key once.
func use(g *limiter.Group, now stage.Instant, keys []string) {
	for _, k := range keys {
		g.For(k).Stage().Take(context.Background(), stage.Request{Now: now, N: 1, Kind: stage.Final})
	}
}

// reporting is a Report and an Apply of n keys, once an interval. All have
// been used since the last.
func reporting(name string, n int) (prepare, run func()) {
	g, all, grants := group(under(name, 1000)), keys(n), answers(name, n)
	now := stage.Instant(0)
	prepare = func() {
		use(g, now, all)
		now = now.Add(interval)
	}
	run = func() {
		batches := driver.Of(g).Report(now)
		if len(batches) != 1 || batches[0].Usage.Len() != n {
			panic(fmt.Sprintf("%d batches, want one of %d keys", len(batches), n))
		}
		check(driver.Of(g).Apply(now, batches[0], nil, grants))
		driver.Of(g).Done(batches[0])
	}
	prepare()
	run()
	return prepare, run
}
