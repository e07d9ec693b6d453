// SPDX-License-Identifier: Apache-2.0

package scenario

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

// Has reports whether host number n is one of c's.
func (c *Cluster) Has(n int) bool {
	return n >= c.Hosts[0] && n < c.Hosts[1] || n >= c.Owners[0] && n < c.Owners[1]
}

// EveryCluster is the clusters of the scenario: of one that has no tree, all hosts are one cluster.
func (sc *Scenario) EveryCluster() []Cluster {
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
