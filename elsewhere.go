// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/limiter/gossip"
)

// newMesh makes the buckets that every host holds.
func (n *Node) newMesh(snapshot *dynamicconfig.Snapshot, o *options) *gossip.Mesh {
	config := gossip.Config{Interval: min(snapshot.Properties().UpdateInterval, gossip.DefaultInterval)}
	rules := func(key string) (*dynamicconfig.Rule, bool) { return n.limits.Current().Match(key) }
	return gossip.New(n.config.Address, rules, config, gossip.WithLogger(o.log), gossip.WithScope(o.scope))
}

// elsewhere has those asked who hold buckets that are no host's part.
func (n *Node) elsewhere(remotes map[string]limiter.Remote) limiter.Option {
	return func(g *limiter.Group) {
		limiter.WithRemote(algorithm.NameExact, exact.New(n.taker))(g)
		limiter.WithRemote(algorithm.NameAuto, exact.NewAuto(n.taker))(g)
		limiter.WithRemote(gossip.Name, n.mesh)(g)
		for name, r := range remotes {
			limiter.WithRemote(name, r)(g)
		}
	}
}
