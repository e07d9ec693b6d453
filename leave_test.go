// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
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
