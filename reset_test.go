// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/bubble"
)

// use has each node ask for n events of key, one after the other, and returns how many
// were allowed.
func use(nodes []*headgate.Node, key string, n int) (allowed int) {
	for range n {
		for _, node := range nodes {
			if node.For(key).Allow() {
				allowed++
			}
		}
	}
	return allowed
}

// Under each algorithm, a reset lets a burst through again, and no more than that.
func TestAResetFillsTheBucketOnAllHosts(t *testing.T) {
	for name, tt := range map[string]struct {
		rule        string
		least, most int // events after the reset
	}{
		"even":             {"algorithm: even", 60, 60},
		"exact":            {"algorithm: exact", 60, 60},
		"auto":             {"algorithm: auto", 55, 64},    // its owner may owe four events
		"elastic":          {"algorithm: elastic", 40, 75}, // it has starters
		"request-weighted": {"algorithm: request-weighted", 55, 61},
		"gossip":           {"algorithm: gossip", 60, 180}, // whole on each host
		"a debt":           {"algorithm: exact, max_debt: 10m, max_cost: 70", 60, 71},
		"a migration":      {"migrate: {from: even, to: exact, mode: new-shadow-old}", 60, 60},
		"shared":           {"algorithm: exact, shared: true", 60, 60},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, _ := bubble.Start(t, 3, "defaults: {update_interval: 1s}\nlimits: [{key: 'k*', limit: 1/m, burst: 60, "+tt.rule+"}]")
				use(nodes, "k1", 1)
				time.Sleep(3 * time.Second) // grants are there
				for range 10 {
					use(nodes, "k1", 100)
					use(nodes, "k2", 100)
					time.Sleep(time.Second)
				}
				if name == "a debt" {
					nodes[0].For("k1").Charge(70)
					time.Sleep(time.Second)
				}
				if left := use(nodes, "k1", 100); left > 2 {
					t.Fatalf("%d events are left before the reset", left)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for host, err := range nodes[0].Reset(ctx, "k1") {
					t.Errorf("%s: %v", host, err)
				}
				other := 0
				if name != "shared" {
					other = use(nodes, "k2", 100)
				}
				got := 0
				for range 10 {
					got += use(nodes, "k1", 100)
					time.Sleep(time.Second)
				}
				if got < tt.least || got > tt.most {
					t.Errorf("%d events after the reset, want %d to %d", got, tt.least, tt.most)
				}
				if other > 2 {
					t.Errorf("another key got %d", other)
				}
			})
		})
	}
}

// A host that is full already gets nothing back for what hosts used before a reset.
func TestAResetUnderGossipIsNoRefund(t *testing.T) {
	for name, before := range map[string]func(nodes []*headgate.Node){
		"all used it":                func(nodes []*headgate.Node) { use(nodes, "k", 1); time.Sleep(time.Second); use(nodes[:1], "k", 100) },
		"others know it by messages": func(nodes []*headgate.Node) { use(nodes[:1], "k", 100) },
		"all are deep in debt":       func(nodes []*headgate.Node) { use(nodes, "k", 60) },
		"one used it a minute ago":   func(nodes []*headgate.Node) { use(nodes[4:], "k", 60); time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, _ := bubble.Start(t, 5, "defaults: {update_interval: 1s}\nlimits: [{key: k, limit: 1/h, burst: 60, algorithm: gossip}]")
				before(nodes)
				time.Sleep(time.Second)
				if got := use(nodes, "k", 100); got > 1 {
					t.Fatalf("%d events are left before the reset", got)
				}
				if failed := nodes[1].Reset(t.Context(), "k"); len(failed) > 0 {
					t.Error(failed)
				}
				got := 0
				for i := range nodes {
					got += use(nodes[i:i+1], "k", []int{20, 100, 100, 100, 100}[i])
					time.Sleep(time.Second)
				}
				if got != 60 {
					t.Errorf("%d events after the reset, want 60", got)
				}
			})
		})
	}
}

func TestAResetKeepsSlotsThatAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, _ := bubble.Start(t, 2, "limits: [{key: k, limit: 2 in-flight, algorithm: even}]")
		release, ok := nodes[0].For("k").TryAcquire(1)
		if !ok {
			t.Fatal("no slot")
		}
		defer release()
		if failed := nodes[0].Reset(t.Context(), "k"); len(failed) > 0 {
			t.Error(failed)
		}
		if _, ok := nodes[0].For("k").TryAcquire(1); ok {
			t.Error("a slot that is held was given twice")
		}
	})
}

// The API of operators answers while a daemon looks for the others. A reset then would be one of its own part,
// and be called done.
func TestAResetBeforeAHostHasJoinedIsNoReset(t *testing.T) {
	l := listen(t)
	address := l.Addr().String()
	n, err := headgate.New(headgate.Config{Address: address}, memory.New(limits(t, "limits: [{key: k, limit: 1/h}]")), membersAt(t, l), quiet, headgate.WithListen(l))
	if err != nil {
		t.Fatal(err)
	}
	if failed := n.Reset(t.Context(), "k"); failed[address] == nil || !strings.Contains(failed[address].Error(), "try again") {
		t.Errorf("before Start: %v", failed)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if failed := n.Reset(t.Context(), "k"); len(failed) > 0 {
		t.Errorf("after Start: %v", failed)
	}
	if err := n.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A host whose key has an owner that hangs says what it has done: it is not taken for one that hangs too.
func TestAResetTellsAHungOwnerFromHostsThatCannotReachIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, wire := bubble.Start(t, 3, "limits: [{key: k, limit: 1/m, burst: 60, algorithm: exact}]")
		use(nodes, "k", 1)
		owner := nodes[0].Ring().Owner("k")
		wire.Hang(owner)
		for _, n := range nodes {
			if n.Address() == owner {
				continue
			}
			for host, err := range n.Reset(t.Context(), "k") {
				if reached := strings.Contains(err.Error(), "the part of this host is full again"); reached != (host != owner) {
					t.Errorf("%s, while %s hangs: %v", host, owner, err)
				}
			}
		}
	})
}
