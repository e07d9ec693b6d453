// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/algorithm"
)

// maxClusters bounds a tree.
const maxClusters = 1000

// copied is what the scenario says of all copies of a cluster.
type copied struct {
	parent, algorithm     string
	copies, hosts, owners int
}

// tree reads the clusters, and numbers their hosts: first those that limit,
// then those that only decide.
func (d *decoder) tree(n ast.Node, sc *Scenario) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	}
	if len(values) == 0 {
		d.fail(n, "clusters: are no map: write {root: {owners: 1}, region: {parent: root, copies: 3, hosts: 5}}")
		return
	}
	var all []Cluster
	hosts, owners := 0, 0
	for _, v := range values {
		name := v.Key.GetToken().Value
		who := fmt.Sprintf("clusters: %.40q", name)
		of := copied{copies: 1, owners: -1, algorithm: algorithm.NameProportionalShare}
		seen := d.mapping(v.Value, who, fields{
			"parent":    d.str(who+": parent", &of.parent),
			"copies":    d.integer(who+": copies", &of.copies, 1, maxClusters),
			"hosts":     d.integer(who+": hosts", &of.hosts, 0, maxHosts),
			"owners":    d.integer(who+": owners", &of.owners, 0, maxHosts),
			"algorithm": d.leasing(who+": algorithm", &of.algorithm),
		})
		if seen == nil {
			return
		}
		if of.owners < 0 {
			of.owners = 0
			if of.hosts == 0 {
				of.owners = 1
			}
		}
		parents := []int{-1}
		if of.parent != "" {
			parents = nil
			for i, c := range all {
				if c.Kind == of.parent {
					parents = append(parents, i)
				}
			}
		}
		total := len(parents) * of.copies
		switch {
		case name == "" || len(name) > 40 || strings.ContainsAny(name, " ,") || slices.ContainsFunc(all, func(c Cluster) bool { return c.Kind == name || c.Name == name }):
			d.fail(v.Key, "%s: is empty, long, has a space or comma, or is there twice: choose another name", who)
			return
		case len(parents) == 0:
			d.fail(seen["parent"], "%s: there is no cluster %.40q above it: name one that stands before it", who, of.parent)
			return
		case len(all) > 0 && of.parent == "" || len(all) == 0 && of.copies > 1:
			d.fail(v.Key, "%s: a tree has one root: name its parent", who)
			return
		case of.hosts+of.owners == 0:
			d.fail(v.Key, "%s: has neither hosts nor owners: add some", who)
			return
		case len(all)+total > maxClusters || hosts+owners+total*(of.hosts+of.owners) > maxHosts:
			d.fail(v.Key, "%s: is too much: use at most %d clusters and %d hosts in all", who, maxClusters, maxHosts)
			return
		}
		for _, above := range parents {
			for i := range of.copies {
				c := Cluster{Name: name, Kind: name, Parent: above, Algorithm: of.algorithm}
				if above >= 0 {
					all[above].Leases = true
					if suffix := strings.TrimPrefix(all[above].Name, all[above].Kind); total > 1 {
						c.Name = fmt.Sprintf("%s%s-%d", name, suffix, i)
					}
				}
				c.Hosts, hosts = [2]int{hosts, hosts + of.hosts}, hosts+of.hosts
				c.Owners, owners = [2]int{owners, owners + of.owners}, owners+of.owners
				all = append(all, c)
			}
		}
	}
	if hosts == 0 {
		d.fail(n, "clusters: have no hosts: add some to a cluster")
		return
	}
	for i := range all { // they come after the hosts
		all[i].Owners[0] += hosts
		all[i].Owners[1] += hosts
	}
	sc.Clusters, sc.Owners = all, owners
	for i := range hosts {
		sc.Hosts = append(sc.Hosts, fmt.Sprintf("host-%d", i))
	}
}

// leasing is the name of an algorithm that leases.
func (d *decoder) leasing(who string, to *string) func(ast.Node) {
	return d.choice(who, []string{
		algorithm.NameNone, algorithm.NameStatic, algorithm.NameProportionalShare, algorithm.NameFairShare,
	}, func(name string) { *to = name })
}
