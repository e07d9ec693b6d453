// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/scenario"
)

// branch is one cluster of a run.
type branch struct {
	*scenario.Cluster

	members members
}

// limitsOf is limits as a cluster has them: below another one, capacity comes
// from there, and above others it is leased.
func limitsOf(c *scenario.Cluster, limits *dynamicconfig.Snapshot, registry *algorithm.Registry) (*dynamicconfig.Snapshot, error) {
	if c.Parent < 0 && !c.Leases {
		return limits, nil
	}
	rules := limits.Rules()
	for i := range rules {
		r := &rules[i]
		r.Parent = c.Parent >= 0
		if a, err := registry.Lookup(r.Algorithm); err == nil && c.Leases {
			if a.Account != algorithm.AccountClaims {
				scenario.SetAlgorithm(r, c.Algorithm)
			}
		}
	}
	snapshot, err := scenario.Rebuilt(limits, rules)
	if err != nil {
		return nil, fmt.Errorf("limits of the cluster %s: %w", c.Name, err)
	}
	return snapshot, nil
}

// Newest are the newest limits.
func (f *Fleet) Newest() *dynamicconfig.Snapshot { return f.configs[len(f.configs)-1] }

// Adopt makes limits the newest version, in every cluster as it has them.
func (f *Fleet) Adopt(limits *dynamicconfig.Snapshot) error {
	var all []*dynamicconfig.Snapshot
	for i := range f.branches {
		s, err := limitsOf(f.branches[i].Cluster, limits, f.registry)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	f.configs = append(f.configs, limits)
	f.configsOf = append(f.configsOf, all)
	return nil
}
