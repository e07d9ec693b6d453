// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
)

// Five nodes on loopback, and callers of whom half are at one node: what all of
// them were let through is limit·t + burst.
func TestAnExactLimitHoldsOverAllNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	const limit, burst = 2000, 2000
	nodes, _ := cluster(t, 5, memory.New(limits(t, `
limits:
  - {key: "k*", limit: 2000/s, burst: 2000, algorithm: exact, fallback: closed}
`)))
	allKnow(t, nodes)
	var admitted, first, last atomic.Int64
	first.Store(math.MaxInt64)
	began := time.Now()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 16 {
		node := nodes[[]int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4}[c]]
		key := node.Group().For("k")
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				before := int64(time.Since(began))
				d := key.Decide(context.Background(), 1, 0)
				if d.OK {
					admitted.Add(1)
					setLeast(&first, before)
					setMost(&last, int64(time.Since(began)))
				} else {
					time.Sleep(min(d.RetryAfter, 2*time.Millisecond))
				}
			}
		})
	}
	time.Sleep(4 * time.Second)
	close(stop)
	wg.Wait()
	elapsed := time.Duration(last.Load() - first.Load()).Seconds()
	want := limit*elapsed + burst
	t.Logf("admitted %d in %.3fs: %+.3f%% of limit·t + burst", admitted.Load(), elapsed, 100*(float64(admitted.Load())/want-1))
	if off := math.Abs(float64(admitted.Load())/want - 1); off > 0.001 {
		t.Errorf("admitted %d, want %.0f: off by %.2f%%", admitted.Load(), want, 100*off)
	}
}

func setLeast(a *atomic.Int64, v int64) {
	for old := a.Load(); v < old && !a.CompareAndSwap(old, v); old = a.Load() {
	}
}

func setMost(a *atomic.Int64, v int64) {
	for old := a.Load(); v > old && !a.CompareAndSwap(old, v); old = a.Load() {
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
  - {key: "k*", limit: 0.1/h, burst: 20, algorithm: exact, fallback: closed}
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
  - {key: "k*", limit: 0.1/h, burst: 20, algorithm: exact, fallback: closed}
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
	const keys = 40
	for i := range keys {
		for range 25 {
			nodes[0].For(fmt.Sprint("k", i)).Allow()
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
