// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/headgatetest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc"
)

// Leases last an hour here, so what is back before that was given back.
func TestWhatAHostHoldsIsFreeWhenItStops(t *testing.T) {
	for _, name := range []string{"fair-share", "proportional-share"} {
		text := strings.Replace(fast, "request-weighted", name, 1)
		text = strings.Replace(text, "limit: 1000/s", "limit: 1000/s, lease: 1h, learning: 0s", 1)
		nodes, _ := cluster(t, 3, memory.New(limits(t, text)))
		for _, n := range nodes {
			n.For("k").SetDemand(1000)
		}
		eventually(t, name+": each has a third", func() bool {
			for _, n := range nodes {
				if s := share(n, "k"); s.Fallback || s.Weight < 0.33 || s.Weight > 0.34 {
					return false
				}
			}
			return true
		})
		leaves := slices.IndexFunc(nodes, func(n *headgate.Node) bool { return n.Address() != n.Ring().Owner("k") })
		if err := nodes[leaves].Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !share(nodes[leaves], "k").Fallback {
			t.Errorf("%s: the one that stopped goes on with what it gave back", name)
		}
		others := slices.Delete(slices.Clone(nodes), leaves, leaves+1)
		eventually(t, name+": the other two have half each", func() bool {
			return share(others[0], "k").Weight > 0.49 && share(others[1], "k").Weight > 0.49
		})
	}
}

// A listener is the service's. One that blocks keeps the host from nothing that others wait
// for: what it holds is free, its keys are handed over, and it answers no more.
func TestAListenerThatBlocksDoesNotHoldUpAHostThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var called atomic.Bool
		defer close(free)
		n := headgatetest.NewNode(t, `limits: [{key: k, limit: 10/s, algorithm: request-weighted}]`,
			headgate.WithLimiter(limiter.WithListener(func([]limiter.Event) { called.Store(true); <-free })))
		for range 10 {
			n.For("k").Allow()
			time.Sleep(time.Second)
		}
		if !called.Load() || share(n, "k").Fallback {
			t.Fatalf("called: %t, %+v", called.Load(), share(n, "k"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if err := n.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "listener") {
			t.Errorf("stopped with %v", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if !share(n, "k").Fallback {
			t.Error("it holds what it was granted still")
		}
	})
}

// Members hand over what they know, one after the other, and nobody takes them for
// strangers: neither who leaves nor who is new.
func TestMembersHandOverInARollingLeave(t *testing.T) {
	const burst = 10000
	scope := tally.NewTestScope("", nil)
	count := func(name string) (n int64) {
		for _, c := range scope.Snapshot().Counters() {
			if strings.HasSuffix(c.Name(), "aggregator."+name) {
				n += c.Value()
			}
		}
		return n
	}
	nodes, members := cluster(t, 4, memory.New(limits(t, `
defaults: {algorithm: exact, update_interval: 100ms, ask_timeout: 10s, fallback: closed}
limits:
  - {key: "*", limit: 1/h, burst: 10000}
`)), headgate.WithScope(scope))
	allKnow(t, nodes)
	const each = 1000
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	take := func(n *headgate.Node, key string, tokens int) bool {
		return n.For(key).Decide(t.Context(), tokens, 0).OK
	}
	for _, key := range keys {
		if !take(nodes[0], key, each) { // which leaves first: so the last node hears of it by a hand-over alone
			t.Fatalf("%s has fewer than %d tokens", key, each)
		}
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
	}
	for _, key := range keys { // of each, the last node has what is left, and no more
		if last := nodes[3]; !take(last, key, burst-each) || take(last, key, 1) {
			t.Errorf("%s has not %d tokens left", key, burst-each)
		}
	}
	if handed, refused := count("handovers"), count("handovers_refused"); handed == 0 || refused != 0 {
		t.Errorf("%d keys were handed over, and %d refused", handed, refused)
	}
}

// unknown are members that nobody ever learns.
type unknown struct{}

func (unknown) Watch(ctx context.Context, _ func([]ringpop.Host)) error {
	<-ctx.Done()
	return nil
}

// closed is a Transport that reaches nobody.
type closed struct{}

func (closed) Peer(string) (rpc.Decider, error)         { return nil, errors.New("nobody") }
func (closed) Start(context.Context, rpc.Decider) error { return nil }
func (closed) Keep([]string) error                      { return nil }
func (closed) Stop(context.Context) error               { return nil }

func TestStopWhileStartWaitsForMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933"}, memory.New(limits(t, fast)), unknown{},
			headgate.WithTransport(closed{}), headgate.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan error)
		go func() { started <- n.Start(t.Context()) }()
		synctest.Wait()
		if err := n.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-started; err == nil {
			t.Error("Start returned no error, though nothing runs")
		}
	})
}

// A host blames no listener where there is none, also if there is no time left to stop.
func TestAHostWithoutListenersBlamesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			n := headgatetest.NewNode(t, `limits: [{key: k, limit: 10/s}]`)
			if err := n.Stop(none); err != nil && strings.Contains(err.Error(), "listener") {
				t.Fatal(err)
			}
		}
	})
}
