// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
)

// Nodes know auto without any option: of two keys the owner decides one, and
// the hosts the other. Who owns the first outlives it.
func TestNodesDecideAutoAsTheLimitIs(t *testing.T) {
	nodes, members := cluster(t, 4, memory.New(limits(t, `
defaults: {algorithm: auto, update_interval: 200ms, lease: 10s, fallback: closed}
limits:
  - {key: "low*", limit: 0.1/h, burst: 20}
  - {key: "high", limit: 100000/s}
`)))
	allKnow(t, nodes)
	keys := []string{"low1", "low2", "low3", "low4"}
	drain := func(alive []*headgate.Node) (taken int) {
		for _, key := range keys {
			for i := range 60 {
				d := alive[i%len(alive)].Group().For(key).Decide(t.Context(), 1, 0)
				if d.OK && d.By == "exact" {
					taken++
				}
			}
		}
		return taken
	}
	if got := drain(nodes); got != 20*len(keys) {
		t.Errorf("%d tokens of %d full buckets", got, len(keys))
	}
	for _, n := range nodes {
		eventually(t, "hosts decide a high limit", func() bool {
			d := n.Group().For("high").Decide(t.Context(), 1, 0)
			return d.OK && d.By == "elastic"
		})
	}
	if err := nodes[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var hosts []ringpop.Host
	for _, n := range nodes[1:] {
		hosts = append(hosts, ringpop.Host{Address: n.Address()})
	}
	if err := members.Set(hosts); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the others know", func() bool {
		for _, n := range nodes[1:] {
			if n.Ring().Len() != len(hosts) {
				return false
			}
		}
		return true
	})
	if got := drain(nodes[1:]); got != 0 {
		t.Errorf("%d tokens after an owner left", got)
	}
}
