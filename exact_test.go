// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/ringpop"
)

// Five nodes on loopback, and callers of whom half are at one node. What all of
// them were let through, and what is left, is limit·t + burst.
func TestAnExactLimitHoldsOverAllNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	const limit, burst = 500, 30_000 // a minute without a turn on a busy machine loses nothing
	nodes, _ := cluster(t, 5, memory.New(limits(t, fmt.Sprintf(`
limits:
  - {key: "k", limit: %d/s, burst: %d, algorithm: exact, fallback: closed, ask_timeout: 10s}
`, limit, burst))))
	allKnow(t, nodes)
	// Nobody knows to the microsecond when the owner decides: from is before
	// the first time, and to after it.
	decide := func(host, n int) (d limiter.Decision, from, to time.Time) {
		eventually(t, "the owner answers", func() bool {
			from = time.Now()
			d = nodes[host].Group().For("k").Decide(t.Context(), n, 0)
			to = time.Now()
			return d.OK && d.By == "exact"
		})
		return d, from, to
	}
	_, begunFrom, begunTo := decide(0, burst) // the bucket is empty
	var admitted atomic.Int64
	admitted.Add(burst)
	const enough = burst + 4*limit
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, host := range []int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4} {
		key := nodes[host].Group().For("k")
		wg.Go(func() {
			for admitted.Load() < enough && ctx.Err() == nil {
				d := key.Decide(ctx, 1, 0)
				if d.OK {
					admitted.Add(1)
					continue
				}
				select {
				case <-ctx.Done():
				case <-time.After(max(min(d.RetryAfter, 2*time.Millisecond), 100*time.Microsecond)):
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatalf("%d admitted in two minutes; it should be %d after 4 s", admitted.Load(), enough)
	}
	for host := range nodes {
		decide(host, 0) // what was not answered is withdrawn
	}
	last, endedFrom, endedTo := decide(0, 0)
	got := float64(admitted.Load()) + last.Left
	least := limit*endedFrom.Sub(begunTo).Seconds() + burst
	most := limit*endedTo.Sub(begunFrom).Seconds() + burst
	t.Logf("%d admitted and %.0f left in %v: limit·t + burst is %.1f to %.1f", admitted.Load(), last.Left, endedTo.Sub(begunFrom), least, most)
	const few = 3
	if got < least-few || got > most+few {
		t.Errorf("%d admitted and %.0f left; together they should be %.0f to %.0f", admitted.Load(), last.Left, least, most)
	}
}

func allKnow(t *testing.T, nodes []*headgate.Node) {
	t.Helper()
	eventually(t, "all nodes know each other", func() bool {
		for _, n := range nodes {
			if n.Ring().Len() != len(nodes) {
				return false
			}
		}
		return true
	})
}

// A key that fills by one token in ten hours is emptied; then its owner leaves
// in order, and the next, and so on. Nobody gets another token.
func TestBucketsOutliveTheirOwners(t *testing.T) {
	nodes, members := cluster(t, 4, memory.New(limits(t, `
limits:
  - {key: "k*", limit: 0.1/h, burst: 20, algorithm: exact, fallback: closed, ask_timeout: 10s}
`)))
	allKnow(t, nodes)
	keys := []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"}
	drain := func(alive []*headgate.Node) (taken int) {
		for _, key := range keys {
			for range 100 {
				if alive[rand.IntN(len(alive))].For(key).Allow() {
					taken++
				}
			}
		}
		return taken
	}
	if got := drain(nodes); got != 20*len(keys) {
		t.Fatalf("%d tokens of %d full buckets", got, len(keys))
	}
	for i := range 3 {
		if err := nodes[i].Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		var hosts []ringpop.Host
		for _, n := range nodes[i+1:] {
			hosts = append(hosts, ringpop.Host{Address: n.Address()})
		}
		if err := members.Set(hosts); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the others know", func() bool {
			for _, n := range nodes[i+1:] {
				if n.Ring().Len() != len(hosts) {
					return false
				}
			}
			return true
		})
		if got := drain(nodes[i+1:]); got != 0 {
			t.Errorf("%d tokens after %d owners left", got, i+1)
		}
	}
}

// A node joins and owns keys of which it knows nothing, nor does who asks it.
func TestBucketsMoveToAnOwnerThatJoins(t *testing.T) {
	nodes, members := cluster(t, 4, memory.New(limits(t, `
limits:
  - {key: "k*", limit: 0.1/h, burst: 20, algorithm: exact, fallback: closed, ask_timeout: 10s}
`)))
	set := func(hosts int) {
		t.Helper()
		var list []ringpop.Host
		for _, n := range nodes[:hosts] {
			list = append(list, ringpop.Host{Address: n.Address()})
		}
		if err := members.Set(list); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all know", func() bool {
			return !slices.ContainsFunc(nodes, func(n *headgate.Node) bool { return n.Ring().Len() != hosts })
		})
	}
	set(3)
	const keys = 100 // of which the new node owns some: of 40, it owns none in one of 37,000 clusters
	for i := range keys {
		if d := nodes[0].Group().For(fmt.Sprint("k", i)).Decide(t.Context(), 20, 0); !d.OK {
			t.Fatalf("%+v", d)
		}
	}
	set(4)
	owned := 0
	for i := range keys {
		key := fmt.Sprint("k", i)
		if nodes[3].Ring().Owner(key) != nodes[3].Address() {
			continue
		}
		owned++
		// Nothing is left, once the former owner has said so.
		eventually(t, "the new owner knows what is left of "+key, func() bool {
			d := nodes[3].Group().For(key).Decide(t.Context(), 0, 0)
			return d.By == "exact" && d.Left < 1
		})
	}
	if owned == 0 {
		t.Fatal("the new node owns no key: the test tests nothing")
	}
}
