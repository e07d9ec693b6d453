// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/bubble"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

func TestAnyNodeAnswersForAnyKeyAtItsEdge(t *testing.T) {
	nodes, _ := cluster(t, 3, memory.New(limits(t, `
defaults: {update_interval: 100ms, algorithm: request-weighted}
limits:
  - {key: "k*", limit: 1000/s}
`)))
	eventually(t, "all nodes know each other", func() bool {
		for _, n := range nodes {
			if n.Ring().Len() != 3 {
				return false
			}
		}
		return true
	})
	const keys = 100 // of which each node owns some: of 30, one of 14,000 clusters has a node that owns none
	// Each host speaks to another node, and used its own part of each key.
	used := []int64{700, 200, 100}
	// report returns no grants if no owner answers within a second; then a busy machine was late.
	report := func(host int) *usage.Grants {
		u := &usage.Report{Algorithm: "request-weighted"}
		for i := range keys {
			u.Keys = append(u.Keys, fmt.Sprint("k", i))
			u.Allowed = append(u.Allowed, used[host])
			u.Rejected = append(u.Rejected, 0)
			u.Elapsed = append(u.Elapsed, time.Second)
			u.Weight = append(u.Weight, 0)
		}
		payload, err := usage.Columnar{}.EncodeReport(u)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := nodes[host].Edge(nil).Update(t.Context(), fmt.Sprint("host ", host), payload)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		g, err := usage.Columnar{}.DecodeGrants(answer, u)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	owners := make(map[string]bool)
	for i := range keys {
		owners[nodes[0].Ring().Owner(fmt.Sprint("k", i))] = true
	}
	if len(owners) != 3 {
		t.Fatalf("the keys have %d owners: the test tests nothing", len(owners))
	}
	eventually(t, "each host has its part of every key", func() bool {
		fits := true
		for host := range nodes {
			g := report(host)
			for i := range keys { // a key whose owner did not answer has the weight 0
				fits = fits && g != nil && math.Abs(g.Weight[i]-float64(used[host])/1000) < 0.01 && g.Lease[i] > 0
			}
		}
		return fits
	})
}

// edges are some edges, one of which is asked for each call, as if it was the
// owner of all keys.
type edges struct {
	all  []rpc.Decider
	next *atomic.Int64
}

func (e edges) Owner(string) string { return "edges" }

func (e edges) Peer(string) (rpc.Decider, error) {
	return e.all[int(e.next.Add(1))%len(e.all)], nil
}

func TestExactLimitsHoldForThoseWhoAskAnyEdge(t *testing.T) {
	const text = `
limits:
  - {key: "k*", limit: 1/h, burst: 50, algorithm: exact, fallback: closed, ask_timeout: 10s}
`
	nodes, _ := cluster(t, 3, memory.New(limits(t, text)))
	allKnow(t, nodes)
	every := edges{next: new(atomic.Int64)}
	for _, n := range nodes {
		every.all = append(every.all, n.Edge(nil))
	}
	group := func(i int) *limiter.Group {
		taker := &ask.Taker{Host: fmt.Sprint("client ", i), Placement: every, Peers: every}
		// Edges may wait for twice as long as the rule says.
		owners := exact.New(taker).Waits(func(askTimeout time.Duration) time.Duration { return 3 * askTimeout })
		return limiter.NewGroup(limits(t, text), 1, limiter.WithRemote(exact.Name, owners))
	}
	const keys, clients, tries = 8, 2, 40
	var admitted [keys]atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		g := group(i)
		for key := range keys {
			name := fmt.Sprint("k", key)
			eventually(t, "all owners answer at all edges", func() bool {
				for range nodes {
					if d := g.For(name).Decide(t.Context(), 0, 0); d.By != exact.Name {
						return false
					}
				}
				return true
			})
			for range tries {
				all.Go(func() {
					for {
						d := g.For(name).Decide(t.Context(), 1, 0)
						if d.By != exact.Name { // an owner was slow, and nothing was taken
							continue
						}
						if d.OK {
							admitted[key].Add(1)
						}
						return
					}
				})
			}
		}
	}
	all.Wait()
	for key := range keys {
		if got := admitted[key].Load(); got != 50 {
			t.Errorf("k%d: %d admitted of %d; want 50", key, got, clients*tries)
		}
	}
}

// The answer of one edge is lost, and the client says so at the next.
func TestWhatIsLostAtOneEdgeIsGivenBackByAnother(t *testing.T) {
	nodes, _ := cluster(t, 3, memory.New(limits(t, `limits: [{key: "k*", limit: 1/h, burst: 50, algorithm: exact, ask_timeout: 10s}]`)))
	allKnow(t, nodes)
	take := func(n *headgate.Node, takes *usage.Takes) (left float64, ok bool) {
		payload, err := usage.EncodeTakes(takes)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := n.Edge(nil).Update(t.Context(), "client", payload)
		if err != nil {
			return 0, false
		}
		var taken usage.Taken
		if err := usage.DecodeTaken(answer, len(takes.Rows), &taken); err != nil {
			t.Fatal(err)
		}
		return taken.Rows[0].Left, taken.Rows[0].Decided
	}
	for i, n := range nodes {
		key := fmt.Sprint("k", i)
		number := uint64(2*i + 1)
		eventually(t, "the owner answers", func() bool {
			_, ok := take(n, &usage.Takes{Rows: []usage.Take{{Key: key}}})
			return ok
		})
		if left, ok := take(n, &usage.Takes{Caller: 1, Batch: number, Rows: []usage.Take{{Key: key, Tokens: 20}}}); !ok || left > 31 {
			t.Fatalf("%v left, %v", left, ok)
		}
		next := nodes[(i+1)%len(nodes)]
		take(next, &usage.Takes{Caller: 1, Batch: number + 1, Withdrawn: []uint64{number}, Rows: []usage.Take{{Key: key}}})
		if left, ok := take(next, &usage.Takes{Rows: []usage.Take{{Key: key}}}); !ok || left < 49 {
			t.Errorf("%v left, %v", left, ok)
		}
	}
}

// A network, or a proxy before an edge, delivers the same message twice.
func TestABatchThatReachesAnEdgeTwiceTakesOnce(t *testing.T) {
	nodes, _ := cluster(t, 2, memory.New(limits(t, `limits: [{key: "k*", limit: 1/h, burst: 50, algorithm: exact, ask_timeout: 10s}]`)))
	allKnow(t, nodes)
	client, err := rpcgrpc.NewClient([]string{serveEdge(t, nodes[0])}, rpcgrpc.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	take := func(takes *usage.Takes) usage.Took {
		payload, err := usage.EncodeTakes(takes)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Update(t.Context(), "client", payload)
		if err != nil {
			t.Fatal(err)
		}
		var taken usage.Taken
		if err := usage.DecodeTaken(answer, len(takes.Rows), &taken); err != nil {
			t.Fatal(err)
		}
		return taken.Rows[0]
	}
	seen := make(map[string]bool) // owners
	for i := uint64(1); len(seen) < 2; i++ {
		key := fmt.Sprint("k", i)
		seen[nodes[0].Ring().Owner(key)] = true
		eventually(t, "the owner answers", func() bool { return take(&usage.Takes{Rows: []usage.Take{{Key: key}}}).Decided })
		batch := &usage.Takes{Caller: 1, Batch: i, Rows: []usage.Take{{Key: key, Tokens: 20}}}
		first := take(batch)
		if again := take(batch); again != first || !first.OK {
			t.Errorf("%s: first %+v, then %+v", key, first, again)
		}
		if left := take(&usage.Takes{Rows: []usage.Take{{Key: key}}}).Left; left < 29 || left > 31 {
			t.Errorf("%s: %v left of 50 after one batch of 20", key, left)
		}
	}
}

// Programs that would wait for a day close no key: without max_wait, takes through an
// edge wait for a second at most. So an edge that dies before it answers keeps a burst
// and a second's tokens of a key, however much it was asked for.
func TestTakesThroughAnEdgeWaitForABoundedTime(t *testing.T) {
	for _, algorithm := range []string{"exact", "auto"} {
		for rule, longest := range map[string]time.Duration{"": time.Second, "max_wait: 3s, ": 3 * time.Second, "max_wait: 0s, ": 0, "max_debt: 2s, ": 2 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				nodes, _ := bubble.Start(t, 2, "limits: [{key: 'k*', limit: 10/s, burst: 20, "+rule+"ask_timeout: 1s, algorithm: "+algorithm+"}]")
				take := func(key string, within time.Duration) usage.Took {
					took, err := usage.Taken{}, error(nil)
					payload := (&usage.Takes{Rows: []usage.Take{{Key: key, Auto: algorithm == "auto", Tokens: 5, Longest: within}}}).Payload()
					answer, err := nodes[0].Edge(nil).Update(t.Context(), "client", payload)
					if err == nil {
						err = usage.DecodeTaken(answer, 1, &took)
					}
					if err != nil {
						t.Fatal(err)
					}
					return took.Rows[0]
				}
				for _, key := range []string{"k1", "k2", "k3"} { // of both owners
					for range 1000 { // whose answers are lost
						if took := take(key, 24*time.Hour); took.OK && took.Wait > longest {
							t.Fatalf("%s, %q: waits for %v", algorithm, rule, took.Wait)
						}
						take(key, -1)
					}
					time.Sleep(longest + 500*time.Millisecond + 10*time.Millisecond)
					if took := take(key, 0); !took.OK {
						t.Errorf("%s, %q: %s is still closed: %+v", algorithm, rule, key, took)
					}
				}
			})
		}
	}
}
