// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// StartCluster starts a Redis Cluster of n masters without replicas, which
// share the slots evenly. It returns when all nodes know each other.
func StartCluster(t testing.TB, n int) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		// A busy machine can keep a node from answering for seconds. The others must not take it for lost.
		servers[i] = Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "60000", "--cluster-require-full-coverage", "no")
	}
	host, port, err := net.SplitHostPort(servers[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range servers {
		c := s.Client()
		if err := c.ClusterAddSlotsRange(t.Context(), slots*i/n, slots*(i+1)/n-1).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.ClusterMeet(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		c := s.Client()
		if err := await(20*time.Second, func(ctx context.Context) error { return whole(ctx, c, n) }); err != nil {
			t.Fatalf("the cluster does not come up: %v", err)
		}
	}
	return servers
}

// whole is nil if c's server knows n nodes and all slots.
func whole(ctx context.Context, c *redis.Client, n int) error {
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, line := range []string{"cluster_state:ok", fmt.Sprintf("cluster_slots_ok:%d", slots), fmt.Sprintf("cluster_known_nodes:%d\r", n)} {
		if !strings.Contains(info, line) {
			return fmt.Errorf("no %q in %q", line, info)
		}
	}
	return nil
}
