// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
)

// WithLimit is old with another limit for the rule of key; burst 0 is one
// second of it.
func WithLimit(old *dynamicconfig.Snapshot, key string, limit, burst float64) (*dynamicconfig.Snapshot, error) {
	rules := old.Rules()
	found := false
	for i := range rules {
		if rules[i].Key == key {
			rules[i].Limit, rules[i].Burst = rate.Limit(limit), burst
			found = true
		}
	}
	if !found {
		return nil, fmt.Errorf("no rule has the key %q: name a rule as limits does", key)
	}
	return Rebuilt(old, rules)
}

// WithAlgorithm is old with one algorithm for all rules.
func WithAlgorithm(old *dynamicconfig.Snapshot, algorithm string) (*dynamicconfig.Snapshot, error) {
	rules := old.Rules()
	for i := range rules {
		rules[i].Migration = nil
		SetAlgorithm(&rules[i], algorithm)
	}
	return Rebuilt(old, rules)
}

// SetAlgorithm has r name algorithm, without an ask_timeout if nothing is asked under
// it.
func SetAlgorithm(r *dynamicconfig.Rule, algorithm string) {
	r.Algorithm = algorithm
	if t, _ := dynamicconfig.TraitsOf(algorithm); !t.Asks {
		r.AskTimeout = 0
	}
}

// Rebuilt is old with other rules. Keys without a rule have no traffic.
func Rebuilt(old *dynamicconfig.Snapshot, rules []dynamicconfig.Rule) (*dynamicconfig.Snapshot, error) {
	return dynamicconfig.Config{Name: old.Name(), Properties: old.Properties(), Rules: rules}.Snapshot()
}
