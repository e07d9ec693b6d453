// SPDX-License-Identifier: Apache-2.0

package aggregator_test

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// Two hosts use a key limited to 1000/s, one three times as much as the
// other.
func ExampleAggregator_Step() {
	rules, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{
		{Key: "frontend:orders", Limit: 1000, Algorithm: "request-weighted"},
	}}.Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	a := aggregator.New(algorithm.Builtin(), rules)
	used := func(n int64) *usage.Report {
		return &usage.Report{
			Algorithm: "request-weighted",
			Keys:      []string{"frontend:orders"},
			Allowed:   []int64{n},
			Rejected:  []int64{0},
			Elapsed:   []time.Duration{3 * time.Second},
			Weight:    []float64{0},
		}
	}
	var grants usage.Grants
	for _, report := range []struct {
		host string
		n    int64
	}{{"a", 900}, {"b", 300}, {"a", 900}} {
		if err := a.Step(0, report.host, used(report.n), &grants); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %.2f of the limit; all use %v/s\n", report.host, grants.Weight[0], grants.Used[0])
	}
	// Output:
	// a: 1.00 of the limit; all use 300/s
	// b: 0.25 of the limit; all use 400/s
	// a: 0.75 of the limit; all use 400/s
}

// A custom weighting is one function over the demands of a key's hosts.
func ExampleNew_customAlgorithm() {
	registry := algorithm.Builtin()
	err := registry.Register("equal-parts", func(capacity float64, demands []algorithm.Demand, parts []float64) {
		for i := range parts {
			parts[i] = capacity / float64(len(demands))
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	rules, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{Key: "*", Limit: 100, Algorithm: "equal-parts"}}}.Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	a := aggregator.New(registry, rules)
	fmt.Println(a != nil)
	// Output: true
}
