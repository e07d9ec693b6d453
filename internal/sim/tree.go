// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// Cluster is one cluster of a tree. Its keys share what its parent leases to
// it, and those of the one without a parent what the rules say.
type Cluster struct {
	// Name is of the one: region-1. Kind is what the scenario calls all copies
	// of it: region.
	Name, Kind string

	// Parent is the number of the cluster above; -1 without one.
	Parent int

	// Leases says that there are clusters below, so that its keys have to be
	// leased out: by Algorithm where the rule's does not lease.
	Leases    bool
	Algorithm string

	// Hosts and Owners are the numbers of its hosts that limit and of those
	// that only decide, each a range of which the second is not part. Without
	// the latter, the former decide too.
	Hosts, Owners [2]int
}

// has tells whether host number n is one of c's.
func (c *Cluster) has(n int) bool {
	return n >= c.Hosts[0] && n < c.Hosts[1] || n >= c.Owners[0] && n < c.Owners[1]
}

// clusters of the scenario: of one that has no tree, all hosts are one cluster.
func (sc *Scenario) clusters() []Cluster {
	if sc.Clusters != nil {
		return sc.Clusters
	}
	n := len(sc.Hosts)
	return []Cluster{{Parent: -1, Hosts: [2]int{0, n}, Owners: [2]int{n, n + sc.Owners}}}
}

// named are the numbers of the clusters called name, or of that kind.
func (sc *Scenario) named(name string) (all []int) {
	for i, c := range sc.Clusters {
		if c.Name == name || c.Kind == name {
			all = append(all, i)
		}
	}
	return all
}

// branch is one cluster of a run.
type branch struct {
	*Cluster

	members members
}

// limitsOf is limits as a cluster has them: below another one, capacity comes
// from there, and above others it is leased.
func limitsOf(c *Cluster, limits *dynamicconfig.Snapshot, registry *algorithm.Registry) (*dynamicconfig.Snapshot, error) {
	if c.Parent < 0 && !c.Leases {
		return limits, nil
	}
	rules := limits.Rules()
	for i := range rules {
		r := &rules[i]
		r.Parent = c.Parent >= 0
		if a, err := registry.Lookup(r.Algorithm); err == nil && c.Leases {
			if a.Account != algorithm.AccountClaims {
				r.Algorithm = c.Algorithm
			}
		}
	}
	snapshot, err := rebuilt(limits, rules)
	if err != nil {
		return nil, fmt.Errorf("limits of the cluster %s: %w", c.Name, err)
	}
	return snapshot, nil
}

// adopt makes limits the newest version, in every cluster as it has them.
func (c *cluster) adopt(limits *dynamicconfig.Snapshot) error {
	var all []*dynamicconfig.Snapshot
	for i := range c.branches {
		s, err := limitsOf(c.branches[i].Cluster, limits, c.registry)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	c.configs = append(c.configs, limits)
	c.configsOf = append(c.configsOf, all)
	return nil
}
