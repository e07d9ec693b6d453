// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/headgatetest"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
)

// Three nodes with four tokens each tell each other that they are at −8.
func TestNodesGossip(t *testing.T) {
	nodes, _ := cluster(t, 3, memory.New(limits(t, `
limits:
  - {key: "k", limit: 0.01/s, burst: 4, algorithm: gossip}
  - {key: "shared:*", limit: 0.01/s, burst: 4, algorithm: gossip, shared: true}
  - key: "moving"
    limit: 0.01/s
    burst: 4
    migrate: {from: even, to: gossip, mode: new-shadow-old}
`)))
	allKnow(t, nodes)
	for _, key := range []string{"k", "shared:a", "moving"} {
		eventually(t, key+" is used", func() bool { return nodes[0].For(key).Allow() })
		// Where others hear of it first, they have as much less.
		taken := 1
		for _, n := range nodes {
			for n.For(key).Allow() {
				taken++
			}
		}
		if taken < 4 || taken > 12 {
			t.Errorf("%s: %d at once, want 4 to 12", key, taken)
		}
		eventually(t, key+" is heard of", func() bool {
			for _, n := range nodes {
				d := n.Group().For(key).Decide(t.Context(), 0, 0)
				if d.By != "gossip" || d.Left > float64(4-taken)+0.5 || d.Left < float64(4-taken) {
					return false
				}
			}
			return true
		})
	}
	if nodes[2].For("shared:b").Allow() {
		t.Error("another key of a shared rule has a bucket of its own")
	}
}

// counting is a Remote that lets so many through.
type counting struct {
	mu   sync.Mutex
	left float64
}

func (c *counting) Do(_ context.Context, take stage.Operation) (stage.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	ok := take.N <= c.left
	if ok {
		c.left -= take.N
	}
	return stage.Outcome{OK: ok, Left: c.left}, nil
}

func TestRulesMayNameARemote(t *testing.T) {
	const text = `limits: [{key: "k", limit: 5/s, algorithm: redis}]`
	config := headgate.Config{Address: "127.0.0.1:1"}
	members, err := static.New(ringpop.Host{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := headgate.New(config, memory.New(limits(t, text)), members); err == nil || !strings.Contains(err.Error(), "redis") {
		t.Errorf("nobody knows redis, and still: %v", err)
	}
	for _, name := range []string{"elastic", "gossip", "exact", "even"} {
		if _, err := headgate.New(config, memory.New(limits(t, "limits: []")), members, headgate.WithRemote(name, &counting{})); !errors.Is(err, algorithm.ErrTaken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := headgate.New(config, memory.New(limits(t, "limits: []")), members, headgate.WithRemote("redis", nil)); err == nil {
		t.Error("nobody to ask passes")
	}
	node, err := headgate.New(config, memory.New(limits(t, text)), members, headgate.WithRemote("redis", &counting{left: 3}))
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for range 10 {
		if node.For("k").AllowN(time.Now(), 1) {
			got++
		}
	}
	if got != 3 {
		t.Errorf("%d allowed, want the 3 that the remote has", got)
	}
}

// A node that stops sends what it used since its last round.
func TestWhatANodeUsedIsKnownWhenItStops(t *testing.T) {
	nodes, _ := cluster(t, 3, memory.New(limits(t, `limits: [{key: "k", limit: 0.01/s, burst: 1000, algorithm: gossip}]`)))
	allKnow(t, nodes)
	for range 600 {
		if !nodes[0].For("k").Allow() {
			t.Fatal("refused")
		}
	}
	if err := nodes[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes[1:] {
		if d := n.Group().For("k").Decide(t.Context(), 0, 0); d.Left > 401 {
			t.Errorf("%v left of 1000 after 600 were used", d.Left)
		}
	}
}

// A rule that vanishes and comes back shows what its bucket has, which goes on filling meanwhile.
func TestARuleThatComesBackShowsItsBucket(t *testing.T) {
	for _, algorithm := range []string{"gossip", "exact", "even"} {
		synctest.Test(t, func(t *testing.T) {
			rules := "limits: [{key: k, limit: 1/s, burst: 15, algorithm: " + algorithm + "}]"
			n := headgatetest.NewNode(t, rules)
			k := n.For("k")
			k.AllowN(time.Now(), 5)
			for _, set := range []string{"limits: []", rules} {
				time.Sleep(time.Second)
				if err := n.Limits().Set(limits(t, set)); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range []float64{12, 13, 14} {
				if got := k.Tokens(); math.Abs(got-want) > 1e-6 {
					t.Errorf("%s: %v tokens, want %v", algorithm, got, want)
				}
				time.Sleep(time.Second)
			}
		})
	}
}
