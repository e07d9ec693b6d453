// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/bubble"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redis"
	"github.com/headgate/headgate/limiter/redis/redistest"
)

// The rule of all laws, but for what a law says itself, and the cluster.
const (
	hosts    = 2
	limit    = 100 // per second
	burst    = 50
	interval = 500 * time.Millisecond
	key      = "a:b"
)

// cluster is nodes under one rule. Programs come to the first.
type cluster struct {
	t     *testing.T
	rules string
	nodes []*headgate.Node
}

// rulesOf are limits with the key under an algorithm. fields end with a comma, if any.
func rulesOf(algorithm string, interval time.Duration, fields string) string {
	return fmt.Sprintf("defaults: {update_interval: %s}\nlimits: [{key: %q, limit: %d/s, burst: %d, %s algorithm: %s}]", interval, key, limit, burst, fields, algorithm)
}

// startCluster starts one in the bubble of t. server is nil unless the rules name redis.
func startCluster(t *testing.T, server *redistest.Server, rules string) *cluster {
	t.Helper()
	var options []headgate.Option
	if server != nil {
		options = append(options, headgate.WithRemote("redis", inRedis(t, server)))
	}
	nodes, _ := bubble.Start(t, hosts, rules, options...)
	return &cluster{t, rules, nodes}
}

var redisRuns atomic.Int64

// inRedis are buckets that no other test has, in a real Redis, on the bubble's time.
func inRedis(t *testing.T, server *redistest.Server) *redis.Buckets {
	t.Helper()
	client := redis.Client(redis.Options{Addresses: []string{server.Address}, Timeout: time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	began := time.Now()
	b, err := redis.New(client, redis.Config{Prefix: fmt.Sprintf("conformance-%d:", redisRuns.Add(1)), Timeout: time.Minute},
		redis.WithLogger(slog.New(slog.DiscardHandler)), redis.WithClock(func() time.Duration { return time.Since(began) }))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// groups are those that decide: of the program at d, and of another host.
func (c *cluster) groups(d *door) []*limiter.Group {
	return []*limiter.Group{d.group, c.nodes[1].Group()}
}

// warm uses the key a little at d and elsewhere, so that there are grants, and then waits
// until its bucket is full again. Leases are for hosts that say what they want.
func (c *cluster) warm(d *door) {
	for range 40 {
		for _, g := range c.groups(d) {
			g.For(key).SetDemand(limit / hosts)
			g.For(key).Allow()
		}
		time.Sleep(interval / 5)
	}
	time.Sleep(4 * interval)
}

// drain takes all that is there now, one by one.
func drain(groups ...*limiter.Group) (took int) {
	for _, g := range groups {
		for range 10 * burst {
			if !g.For(key).Allow() {
				break
			}
			took++
		}
	}
	return took
}
