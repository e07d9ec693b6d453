// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/limiter/client"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

const lostRules = `
defaults: {update_interval: 300ms, lease: 3s, refresh: 500ms, recalculate: 0s, learning: 1s}
limits:
  - {key: "db:*", limit: 100/s, algorithm: fair-share, fallback: safe, safe_capacity: 5/s}
`

// A Doorman client whose server died keeps what it has for ever.
func TestAProgramWhoseDecidersDiedFallsBackWhenItsLeaseEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for leases to end")
	}
	t.Parallel()
	deciders := newTreeCluster(t, "alone", 1, lostRules, nil)
	c, err := client.New(client.Config{Addresses: deciders.edges(), Host: "program"}, file.New(deciders.limits), client.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.For("db:a").SetDemand(80)
	granted := func() bool {
		s := share(c, "db:a")
		return !s.Fallback && float64(s.Level.Limit) > 79 && float64(s.Level.Limit) < 81
	}
	eventually(t, "it has what it wants", granted)
	deciders.nodes[0].kill()
	ends := time.Now().Add(share(c, "db:a").Lease)
	eventually(t, "it falls back", func() bool {
		s := share(c, "db:a")
		if s.Fallback && time.Now().Before(ends.Add(-10*time.Millisecond)) {
			t.Fatalf("it fell back %v before its lease ended", time.Until(ends))
		}
		return s.Fallback && s.Level.Limit == 5
	})
	t.Logf("it fell back %v after its lease ended", time.Since(ends).Round(time.Millisecond))
	deciders.nodes[0].start()
	eventually(t, "it has what it wants again", granted)
}

// There, an election took more than 40 seconds.
func TestAnotherDeciderTakesOverInSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for leases to end")
	}
	t.Parallel()
	deciders := newTreeCluster(t, "pair", 2, lostRules, nil)
	victim, survivor := deciders.owner(t, "db:a"), deciders.nodes[0]
	if survivor == victim {
		survivor = deciders.nodes[1]
	}
	conn, err := grpc.NewClient(survivor.edge, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a := &doormanClient{id: "a", key: "db:a", wants: 70, server: doormanpb.NewCapacityClient(conn)}
	eventually(t, "it has what it wants", func() bool {
		a.ask(t.Context())
		return a.held(time.Now()) == 70
	})
	victim.kill()
	died, before, ends := time.Now(), waits(), a.lease.GetExpiryTime()
	deciders.list(t, victim)
	eventually(t, "another decider extends its lease", func() bool {
		a.ask(t.Context())
		return a.lease.GetExpiryTime() > ends && a.held(time.Now()) == 70
	})
	took := time.Since(died)
	t.Logf("the key's lease was extended %v after its owner's death", took.Round(time.Millisecond))
	if took > 10*time.Second && !before.starved() {
		t.Errorf("failover took %v", took)
	}
}
