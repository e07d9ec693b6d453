// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/scenario/nodes"
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
func (d decoder) tree(n ast.Node, sc *Scenario) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	}
	if len(values) == 0 {
		d.Fail(n, "clusters: are no map: write {root: {owners: 1}, region: {parent: root, copies: 3, hosts: 5}}")
		return
	}
	var g grown
	for _, v := range values {
		name := v.Key.GetToken().Value
		of, seen := d.copies(v.Value, name)
		if seen == nil {
			return
		}
		parents := g.kind(of.parent)
		if problem := g.check(name, of, len(parents)*of.copies); problem != "" {
			d.Fail(v.Key, "clusters: %.40q: %s", name, problem)
			return
		}
		g.add(name, of, parents)
	}
	if g.hosts == 0 {
		d.Fail(n, "clusters: have no hosts: add some to a cluster")
		return
	}
	for i := range g.all { // they come after the hosts
		g.all[i].Owners[0] += g.hosts
		g.all[i].Owners[1] += g.hosts
	}
	sc.Clusters, sc.Owners = g.all, g.owners
	for i := range g.hosts {
		sc.Hosts = append(sc.Hosts, fmt.Sprintf("host-%d", i))
	}
}

// copies reads what is said of all copies of a cluster; seen is nil if it is no
// map.
func (d decoder) copies(n ast.Node, name string) (of copied, seen map[string]ast.Node) {
	who := fmt.Sprintf("clusters: %.40q", name)
	of = copied{copies: 1, owners: -1, algorithm: algorithm.NameProportionalShare}
	seen = d.Mapping(n, who, nodes.Fields{
		"parent":    d.Str(who+": parent", &of.parent),
		"copies":    d.Integer(who+": copies", &of.copies, 1, maxClusters),
		"hosts":     d.Integer(who+": hosts", &of.hosts, 0, MaxHosts),
		"owners":    d.Integer(who+": owners", &of.owners, 0, MaxHosts),
		"algorithm": leasing(d, who+": algorithm", &of.algorithm),
	})
	if of.owners < 0 {
		of.owners = 0
		if of.hosts == 0 {
			of.owners = 1
		}
	}
	return of, seen
}

// grown is a tree, as far as it has been read.
type grown struct {
	all           []Cluster
	hosts, owners int
}

// kind are the numbers of all copies of a cluster; -1 stands for none above.
func (g *grown) kind(name string) (all []int) {
	if name == "" {
		return []int{-1}
	}
	for i, c := range g.all {
		if c.Kind == name {
			all = append(all, i)
		}
	}
	return all
}

// check says what is wrong with so many new clusters, if anything is.
func (g *grown) check(name string, of copied, total int) string {
	taken := slices.ContainsFunc(g.all, func(c Cluster) bool { return c.Kind == name || c.Name == name })
	switch {
	case name == "" || len(name) > 40 || strings.ContainsAny(name, " ,-") || taken:
		return "is empty, long, has a space, a comma or a -, or is there twice: choose another name"
	case total == 0:
		return fmt.Sprintf("there is no cluster %.40q above it: name one that stands before it", of.parent)
	case len(g.all) > 0 && of.parent == "" || len(g.all) == 0 && of.copies > 1:
		return "a tree has one root: name its parent"
	case of.hosts+of.owners == 0:
		return "has neither hosts nor owners: add some"
	case len(g.all)+total > maxClusters || g.hosts+g.owners+total*(of.hosts+of.owners) > MaxHosts:
		return fmt.Sprintf("is too much: use at most %d clusters and %d hosts in all", maxClusters, MaxHosts)
	}
	return ""
}

// add adds the copies below each of parents.
func (g *grown) add(name string, of copied, parents []int) {
	for _, above := range parents {
		for i := range of.copies {
			c := Cluster{Name: name, Kind: name, Parent: above, Algorithm: of.algorithm}
			if above >= 0 {
				up := &g.all[above]
				up.Leases = true
				if len(parents)*of.copies > 1 {
					c.Name = fmt.Sprintf("%s%s-%d", name, strings.TrimPrefix(up.Name, up.Kind), i)
				}
			}
			c.Hosts, g.hosts = [2]int{g.hosts, g.hosts + of.hosts}, g.hosts+of.hosts
			c.Owners, g.owners = [2]int{g.owners, g.owners + of.owners}, g.owners+of.owners
			g.all = append(g.all, c)
		}
	}
}

// leasing is the name of an algorithm that leases.
func leasing(d decoder, who string, to *string) func(ast.Node) {
	return d.Choice(who, []string{
		algorithm.NameNone, algorithm.NameStatic, algorithm.NameProportionalShare, algorithm.NameFairShare,
	}, func(name string) { *to = name })
}
