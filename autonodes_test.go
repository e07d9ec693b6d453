// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate"
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
	// takes longer than the interval.
	const full, unsure = 20, 10
	var keys []string
	for fulls := 0; fulls < 4; {
		key := fmt.Sprint("low", len(keys))
		keys = append(keys, key)
		switch got := drain(nodes, key); {
		case got == full:
			fulls++
		case got != unsure:
			t.Fatalf("%d tokens of %s, which was full", got, key)
		case len(keys) == 50:
			t.Fatal("the machine is always too slow")
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
	for _, key := range keys {
		if got := drain(nodes[1:], key); got != 0 {
			t.Errorf("%d tokens of %s after an owner left", got, key)
		}
	}
}
