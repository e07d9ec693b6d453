// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/meshusage"
)

// told counts what a node tells others under gossip.
type told struct {
	closed

	messages atomic.Int64
}

func (c *told) Peer(string) (rpc.Decider, error) { return c, nil }

func (c *told) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	if payload.GetTypeUrl() != meshusage.TypeURL {
		return nil, errors.New("away")
	}
	c.messages.Add(1)
	return meshusage.EncodeHeard(7), nil
}

// Under gossip, hosts report every update_interval, and at least every 500ms, also
// after update_interval has changed.
func TestGossipFollowsTheUpdateInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := func(interval string) string {
			return "defaults: {update_interval: " + interval + "}\nlimits: [{key: k, limit: 1000/s, algorithm: gossip}]\n"
		}
		config := memory.New(limits(t, source("3s")))
		members, err := hosted.New(ringpop.Host{Address: "a:1"}, ringpop.Host{Address: "b:1"})
		if err != nil {
			t.Fatal(err)
		}
		transport := new(told)
		n, err := headgate.New(headgate.Config{Address: "a:1"}, config, members,
			headgate.WithTransport(transport), headgate.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				n.For("k").Allow()
			}
		}
		for _, step := range []struct {
			interval string
			messages int64 // in ten seconds
		}{{"3s", 20}, {"100ms", 100}, {"250ms", 40}, {"10s", 20}} {
			config.Set(limits(t, source(step.interval)))
			pass(time.Second)
			before := transport.messages.Load()
			pass(10 * time.Second)
			if got := transport.messages.Load() - before; got < step.messages-1 || got > step.messages+1 {
				t.Errorf("update_interval %s: %d messages in 10s, want %d", step.interval, got, step.messages)
			}
		}
		if err := n.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
