// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// decider has heard from every host about every key.
type decider struct {
	*aggregator.Aggregator
	hosts []string
	usage *usage.Report
}

func newDecider(name string, hosts, n int) *decider {
	d := &decider{usage: used(name, n)}
	snapshot := rules(dynamicconfig.Rule{Key: "*", Limit: 1000, Algorithm: name})
	d.Aggregator = aggregator.New(algorithm.Builtin(), snapshot)
	var g usage.Grants
	for h := range hosts {
		d.hosts = append(d.hosts, fmt.Sprintf("10.0.%d.%d:7933", h/250, h%250+1))
		check(d.Step(time.Duration(h), d.hosts[h], d.usage, &g))
	}
	return d
}

// used is what a host reports about n keys.
func used(name string, n int) *usage.Report {
	u := &usage.Report{
		Algorithm: name, Keys: keys(n), Elapsed: column(n, interval),
		Allowed: make([]int64, n), Rejected: make([]int64, n), Weight: make([]float64, n),
	}
	for i := range n {
		u.Allowed[i] = int64(i * 7 % 1000)
		u.Rejected[i] = int64(i % 10 / 9 * 40)
		u.Weight[i] = float64(i%8) / 8
	}
	if name == algorithm.NameElastic {
		u.Wants = make([]float64, n) // costs of 1 are left out
		for i := range n {
			u.Wants[i] = float64(u.Allowed[i]) * 1.1
		}
	}
	return u
}

// deciding is what an owner does and keeps.
func deciding() []operation {
	const hosts, n = 100, 100
	var all []operation
	for _, name := range both {
		all = append(all,
			operation{name: "step/" + name, per: "key", units: n, runs: hosts, slow: name == algorithm.NameRequestWeighted, bench: func() (prepare, run func()) {
				d := newDecider(name, hosts, n)
				var g usage.Grants
				now, i := interval, 0
				return nil, func() {
					check(d.Step(now, d.hosts[i%hosts], d.usage, &g))
					now += interval / hosts
					i++
				}
			}},
			// The message that they were told in is not theirs.
			operation{name: "decider-memory/" + name, per: "key-host", units: 100 * 1000, hold: func() any {
				return newDecider(name, 100, 1000).Aggregator
			}},
			operation{name: "decider-memory-one-host/" + name, per: "key", units: 20_000, hold: func() any {
				return newDecider(name, 1, 20_000).Aggregator
			}})
	}
	return all
}
