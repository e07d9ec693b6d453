// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
)

// WithLimit is old with another limit for the rule of key; burst 0 is one
// second of it.
func WithLimit(old *dynamicconfig.Snapshot, key string, limit, burst float64) (*dynamicconfig.Snapshot, error) {
	return withRule(old, key, func(r *dynamicconfig.Rule) { r.Limit, r.Burst = rate.Limit(limit), burst })
}

// WithAlgorithmOf is old with another algorithm for the rule of key.
func WithAlgorithmOf(old *dynamicconfig.Snapshot, key, algorithm string) (*dynamicconfig.Snapshot, error) {
	return withRule(old, key, func(r *dynamicconfig.Rule) {
		r.Migration = nil
		SetAlgorithm(r, algorithm)
	})
}

// withRule is old with a change of the rule of key.
func withRule(old *dynamicconfig.Snapshot, key string, change func(*dynamicconfig.Rule)) (*dynamicconfig.Snapshot, error) {
	rules := old.Rules()
	i := slices.IndexFunc(rules, func(r dynamicconfig.Rule) bool { return r.Key == key })
	if i < 0 {
		return nil, fmt.Errorf("no rule has the key %q: name a rule as limits does", key)
	}
	change(&rules[i])
	return Rebuilt(old, rules)
}

// checkRules reports whether what a says of rules is possible.
func (a *Action) checkRules(limits *dynamicconfig.Snapshot) (err error) {
	if a.Key == "" {
		return nil
	}
	switch a.Do {
	case "limit":
		_, err = WithLimit(limits, a.Key, a.Limit, a.Burst)
	case "algorithm":
		_, err = WithAlgorithmOf(limits, a.Key, a.Algorithm)
	case "override":
		_, err = withRule(limits, a.Key, func(*dynamicconfig.Rule) {})
	}
	return err
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
