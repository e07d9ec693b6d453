// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/limiter/redis"
	"github.com/headgate/headgate/limiter/redis/redistest"
)

const modesLimit, modesBurst = 1000, 1000

// modes are the limits of one key that migrates.
func modes(t *testing.T, from, to, mode string) *dynamicconfig.Snapshot {
	t.Helper()
	return limits(t, fmt.Sprintf(`
defaults: {update_interval: 200ms, ask_timeout: 10s}
limits:
  - {key: "k", limit: %d/s, burst: %d, fallback: closed, migrate: {from: %s, to: %s, mode: %s}}
`, modesLimit, modesBurst, from, to, mode))
}

// migrating are three nodes whose key goes from one algorithm to another.
func migrating(t *testing.T, from, to string) ([]*headgate.Node, *memory.Source) {
	t.Helper()
	return migratingBy(t, to, modes(t, from, to, "old"))
}

// migratingBy are three nodes, with a Redis if it is needed: under the name redis, and under stored.
func migratingBy(t *testing.T, to string, s *dynamicconfig.Snapshot) ([]*headgate.Node, *memory.Source) {
	t.Helper()
	if to != "exact" {
		return migratingAt(t, redistest.Start(t), s)
	}
	source := memory.New(s)
	nodes, _ := cluster(t, 3, source)
	allKnow(t, nodes)
	return nodes, source
}

func migratingAt(t *testing.T, server *redistest.Server, s *dynamicconfig.Snapshot) ([]*headgate.Node, *memory.Source) {
	t.Helper()
	client := redis.Client(redis.Options{Addresses: []string{server.Address}, Timeout: time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	// Redis may have taken an event that timed out, which a host cannot know.
	buckets, err := redis.New(client, redis.Config{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	source := memory.New(s)
	nodes, _ := cluster(t, 3, source, headgate.WithRemote("redis", buckets), headgate.WithRemote("stored", buckets))
	allKnow(t, nodes)
	return nodes, source
}

// flow has callers at all nodes ask for more than the limit, until ctx ends,
// and counts how often they asked and were let through.
func flow(ctx context.Context, nodes []*headgate.Node, asked, admitted *atomic.Int64) (wait func()) {
	var all sync.WaitGroup
	for _, n := range nodes {
		for range 4 {
			key := n.Group().For("k")
			all.Go(func() {
				tick := time.NewTicker(4 * time.Millisecond) // 3000/s in all
				defer tick.Stop()
				for ctx.Err() == nil {
					<-tick.C
					asked.Add(1)
					if key.Decide(ctx, 1, 0).OK {
						admitted.Add(1)
					}
				}
			})
		}
	}
	return all.Wait
}

// Traffic of three times the limit goes through all modes, and back, and jumps
// over those that measure. All in all, nobody gets more than one bucket gives.
func TestMigratingToARemoteBucketGivesNoSecondBurst(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	for _, tc := range []struct {
		name string
		path []string
		over float64 // at most, in bursts, for all of the path
	}{
		{"through all modes", []string{"old-shadow-new", "new-shadow-old", "new", "new-shadow-old", "old-shadow-new", "old"}, 0.3},
		// elastic takes a moment to spread what it hears, and may lend meanwhile.
		{"at once", []string{"new", "old", "new"}, 0.6},
	} {
		for _, to := range []string{"exact", "redis"} {
			t.Run(to+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				nodes, source := migrating(t, "elastic", to)
				ctx, cancel := context.WithCancel(t.Context())
				var asked, admitted atomic.Int64
				began := time.Now()
				wait := flow(ctx, nodes, &asked, &admitted)
				time.Sleep(2 * modesBurst * time.Second / modesLimit) // the first burst
				for _, mode := range tc.path {
					source.Set(modes(t, "elastic", to, mode))
					time.Sleep(modesBurst * time.Second / modesLimit)
				}
				cancel()
				wait()
				want := modesLimit*time.Since(began).Seconds() + modesBurst
				got := float64(admitted.Load())
				t.Logf("%.0f admitted, %+.3f bursts beside limit·t + burst", got, (got-want)/modesBurst)
				if got > want+tc.over*modesBurst {
					t.Errorf("%.0f admitted of %.0f", got, want)
				}
				// Callers on a busy machine ask for less, and buckets run over.
				if got < min(want, float64(asked.Load()))/2 {
					t.Errorf("%.0f admitted of %.0f, and of %d that were asked for", got, want, asked.Load())
				}
			})
		}
	}
}

// Every event is taken from the remote bucket once, whether that measures or
// answers, and also what happened before it was asked.
func TestARemoteBucketIsChargedOnceInEachMode(t *testing.T) {
	for _, to := range []string{"exact", "stored"} { // redis has no ask_timeout: an event that waits for a charge for 20 ms would fall back
		t.Run(to, func(t *testing.T) {
			// Where other hosts use nothing, a bucket fills faster than a host's part of it, and the host is charged with the difference,
			// rounded up. Under this limit that takes minutes.
			limitsOf := func(mode string) *dynamicconfig.Snapshot {
				return limits(t, fmt.Sprintf(`{defaults: {ask_timeout: 10s}, limits: [{key: "k", limit: 0.0036/h, burst: 300, migrate: {from: even, to: %s, mode: %s}}]}`, to, mode))
			}
			nodes, source := migratingBy(t, to, limitsOf("old"))
			key := nodes[0].Group().For("k")
			spent := 0
			// While answers overlap, the host does not know which of them is the latest, and may take a refund for used.
			compare := func(mode string, spent int64) {
				if mode == "old" || mode == "new" {
					return
				}
				eventually(t, mode+": both have decided", func() bool {
					st, _ := nodes[0].Group().Inspect("k")
					return st.Divergence.Both == spent
				})
			}
			spend := func(mode string) {
				for n := range int64(7) {
					if !key.Allow() {
						t.Fatalf("%s: refused", mode)
					}
					compare(mode, n+1)
				}
				held := key.Take(t.Context(), 5, 0)
				if !held.OK() {
					t.Fatalf("%s: refused", mode)
				}
				compare(mode, 7+5)
				held.Settle(3)
				spent += 10
			}
			spend("old")
			for _, mode := range []string{"old-shadow-new", "new-shadow-old", "new"} {
				source.Set(limitsOf(mode))
				eventually(t, mode, func() bool {
					st, ok := nodes[0].Group().Inspect("k")
					return ok && st.Mode.String() == mode
				})
				spend(mode)
			}
			d := key.Decide(t.Context(), 0, 0)
			defer func() { t.Logf("the last decision: %+v", d) }()
			eventually(t, fmt.Sprint(300-spent, " are left"), func() bool {
				d = key.Decide(t.Context(), 0, 0)
				return d.By == to && int(d.Left) == 300-spent
			})
		})
	}
}

// Redis hangs, and nobody waits for it while it only measures.
func TestAShadowThatHangsDelaysNobody(t *testing.T) {
	server := redistest.Start(t)
	nodes, _ := migratingAt(t, server, limits(t, `limits: [{key: "k", limit: 1000000/s, migrate: {from: elastic, to: redis, mode: old-shadow-new}}]`))
	key := nodes[0].Group().For("k")
	eventually(t, "it is let through", key.Allow)
	server.Stop()
	defer server.Continue()
	began := time.Now()
	for range 200 {
		if d := key.Decide(t.Context(), 1, 0); d.By == "redis" {
			t.Fatalf("%+v", d)
		}
	}
	// If one of them waited for redis, that would take a minute.
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("200 decisions took %v", took)
	}
}
