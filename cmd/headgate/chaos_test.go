// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // has clients leave out servers that say they end
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

var kills = flag.Int("kills", 1, "how many owners die in each cluster of the chaos tests")

const (
	chaosLimit, chaosBurst = 50, 25

	chaosRules = `
defaults: {update_interval: 500ms, lease: 5s}
limits:
  - {key: "k:*", limit: 50/s, burst: 25}
  - {key: "x:*", limit: 50/s, burst: 25, algorithm: exact}
  - {key: "f:*", limit: 100000/s}
`
)

// load is programs that call the edges of a cluster all the time: with gRPC's own
// balancing and health checks, and no retries.
type load struct {
	conn   *grpc.ClientConn
	loops  sync.WaitGroup
	cancel context.CancelFunc

	mu       sync.Mutex // protects following fields
	admitted map[string]int
	failed   []failure
	calls    int
}

// failure is a call that was not answered.
type failure struct {
	at  time.Time
	key string
	err error
}

// newLoad asks for tokens of each key about perSecond times a second.
func newLoad(t *testing.T, edges, keys []string, perSecond int) *load {
	t.Helper()
	r := manual.NewBuilderWithScheme("edges")
	var addresses []resolver.Address
	for _, e := range edges {
		addresses = append(addresses, resolver.Address{Addr: e})
	}
	r.InitialState(resolver.State{Addresses: addresses})
	conn, err := grpc.NewClient("edges:///", grpc.WithResolvers(r), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`))
	if err != nil {
		t.Fatal(err)
	}
	l := &load{conn: conn, admitted: make(map[string]int)}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	quota := quotaservicepb.NewQuotaServiceClient(conn)
	for _, key := range keys {
		l.loops.Go(func() {
			every := time.NewTicker(time.Second / time.Duration(perSecond))
			defer every.Stop()
			var calls sync.WaitGroup
			defer calls.Wait()
			for {
				select {
				case <-ctx.Done():
					return
				case <-every.C:
					calls.Go(func() { l.call(quota, key) })
				}
			}
		})
	}
	t.Cleanup(l.close)
	return l
}

func (l *load) call(quota quotaservicepb.QuotaServiceClient, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := quota.Allow(ctx, &quotaservicepb.AllowRequest{Namespace: key[:1], BucketName: key[2:], TokensRequested: 1, MaxWaitTimeOverride: true})
	l.mu.Lock()
	defer l.mu.Unlock()

	l.calls++
	switch {
	case err != nil:
		l.failed = append(l.failed, failure{time.Now(), key, err})
	case answer.GetStatus() == quotaservicepb.AllowResponse_OK:
		l.admitted[key]++
	case answer.GetStatus() != quotaservicepb.AllowResponse_REJECTED_TIMEOUT:
		l.failed = append(l.failed, failure{time.Now(), key, fmt.Errorf("%v", answer.GetStatus())})
	}
}

func (l *load) close() {
	l.cancel()
	l.loops.Wait()
	_ = l.conn.Close()
}

// taken returns what was admitted so far, by key.
func (l *load) taken(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.admitted[key]
}

// TestOwnersDie has owners die and end in order, under load, and return.
func TestOwnersDie(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits until they are missed")
	}
	for _, size := range []int{3, 5} {
		t.Run(fmt.Sprint("daemons=", size), func(t *testing.T) {
			c := newMemberCluster(t, size, true, chaosRules, "--lame-duck", "1s", "--drain", "5s")
			for i := range *kills {
				c.die(t, i%size, true)
				c.die(t, (i+1)%size, false)
			}
		})
	}
}

// die has a daemon fail under load: it is killed, or ends in order.
func (c *memberCluster) die(t *testing.T, victim int, killed bool) {
	v := c.nodes[victim]
	var edges []string
	var others []*rpcgrpc.Client
	probed := c.owned(t, "x:probe", v.cluster)
	for i, n := range c.nodes {
		edges = append(edges, n.edge)
		if i == victim {
			continue
		}
		d, err := rpcgrpc.NewClient([]string{n.edge}, rpcgrpc.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		others = append(others, d)
	}
	keys := []string{c.owned(t, "x:", v.cluster), c.owned(t, "k:", v.cluster)}
	for i := range 4 {
		keys = append(keys, fmt.Sprint("f:", i))
	}
	l := newLoad(t, edges, keys, 5*chaosLimit)
	for _, key := range keys {
		eventually(t, "the load runs", func() bool { return l.taken(key) > 3*chaosBurst })
	}
	for _, d := range others {
		eventually(t, "the owner answers", func() bool { return decided(t.Context(), d, probed) })
	}
	before, began := [2]int{l.taken(keys[0]), l.taken(keys[1])}, time.Now()
	if killed {
		v.kill()
	} else {
		v.stop()
	}
	failed := began
	for _, d := range others {
		eventually(t, "another decides", func() bool { return decided(t.Context(), d, probed) })
	}
	took := time.Since(failed)
	drive(nil, nil, 1, 3*time.Second)
	after, elapsed := [2]int{l.taken(keys[0]), l.taken(keys[1])}, time.Since(began)
	l.close()
	late := 0
	for _, f := range l.failed {
		if d := f.at.Sub(failed); !killed || d > 2*time.Second {
			late++
			if late < 4 {
				t.Errorf("%v after: %s: %v", d, f.key, f.err)
			}
		}
	}
	for i := range 2 {
		n := after[i] - before[i]
		t.Logf("killed=%v: another decides after %v; %s: %d admitted in %v, over by %.0f; %d of %d calls failed",
			killed, took.Round(10*time.Millisecond), keys[i], n, elapsed.Round(10*time.Millisecond), float64(n)-chaosLimit*elapsed.Seconds(), len(l.failed), l.calls)
	}
	v.start()
	for i := range c.nodes {
		eventually(t, "it is back", func() bool { return c.up(i) == len(c.nodes) })
	}
}

// TestARollingRestart restarts all daemons, one after the other, under load.
func TestARollingRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits until they are missed")
	}
	c := newMemberCluster(t, 5, true, chaosRules, "--lame-duck", "1s", "--drain", "5s")
	var edges, keys []string
	for i, n := range c.nodes {
		edges = append(edges, n.edge)
		keys = append(keys, c.owned(t, "k:", n.cluster), c.owned(t, "x:", n.cluster))
		_ = i
	}
	l := newLoad(t, edges, keys, 2*chaosLimit)
	for _, key := range keys {
		eventually(t, "the load runs", func() bool { return l.taken(key) > 3*chaosBurst })
	}
	before, began := make(map[string]int), time.Now()
	for _, key := range keys {
		before[key] = l.taken(key)
	}
	for _, n := range c.nodes {
		n.stop()
		n.start()
		for i := range c.nodes {
			eventually(t, "it is back", func() bool { return c.up(i) == len(c.nodes) })
		}
	}
	elapsed := time.Since(began)
	for _, key := range keys {
		t.Logf("%s: %.3f of the limit in %v", key, float64(l.taken(key)-before[key])/elapsed.Seconds()/chaosLimit, elapsed.Round(time.Second))
	}
	l.close()
	for _, f := range l.failed {
		t.Errorf("%s: %v", f.key, f.err)
	}
	t.Logf("%d calls", l.calls)
}
