// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
)

// Nodes know auto without any option: of two keys the owner decides one, and
// the hosts the other. Who owns the first outlives it.
func TestNodesDecideAutoAsTheLimitIs(t *testing.T) {
	nodes, members := cluster(t, 4, memory.New(limits(t, `
defaults: {algorithm: auto, update_interval: 200ms, lease: 10s, fallback: closed, ask_timeout: 10s}
limits:
  - {key: "low*", limit: 0.1/h, burst: 20}
  - {key: "high", limit: 100000/s}
`)))
	allKnow(t, nodes)
	drain := func(alive []*headgate.Node, key string) (taken int) {
		for i := range 60 {
			d := alive[i%len(alive)].Group().For(key).Decide(t.Context(), 1, 0)
			if d.OK {
				taken++
			}
		}
		return taken
	}
	// An owner that hears of a key from a report before anybody asks begins with
	// half of its burst: the key may not be new. That happens where the first ask
	// takes longer than the interval. On a machine that is as slow later on, hosts are
	// lent tokens, and keep parts of one.
	const full = 20
	over := algorithm.Elastic{}.Overshoot(algorithm.Limit{Burst: full}, len(nodes), 0)
	taken := make(map[string]int)
	for fulls := 0; fulls < 4; {
		if len(taken) == 50 {
			t.Fatal("the machine is always too slow")
		}
		key := fmt.Sprint("low", len(taken))
		taken[key] = drain(nodes, key)
		if got := taken[key]; float64(got) > full+over || got < full/2-len(nodes) {
			t.Fatalf("%d tokens of %s, which was full", got, key)
		}
		if taken[key] == full {
			fulls++
		}
	}
	for _, n := range nodes {
		eventually(t, "hosts decide a high limit", func() bool {
			d := n.Group().For("high").Decide(t.Context(), 1, 0)
			return d.OK && d.By == "auto"
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
	for key, before := range taken {
		// Parts of a token that hosts kept may be one together.
		if got := drain(nodes[1:], key); got > max(full-before, 0)+len(hosts) || before == full && got > 1 {
			t.Errorf("%d tokens of %s after an owner left, and %d before", got, key, before)
		}
	}
}
