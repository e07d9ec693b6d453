// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
)

// atOnce are limits of which version i differs from the one before.
func atOnce(t *testing.T, i int) string {
	t.Helper()
	return fmt.Sprintf(`
defaults: {update_interval: 100ms, lease: 500ms, learning: 0s}
limits:
  - {key: "auto:*", limit: %d/s, max_keys: %d}
  - {key: "exact", limit: 1000/s, algorithm: %s}
  - {key: "slots", limit: %d in-flight, algorithm: fair-share}
  - {key: "moves", limit: 1000/s, migrate: {from: even, to: auto, mode: %s}}
  - {key: "shared:*", limit: 1000/s, shared: %t, max_wait: 1ms}
`, 1000+i, 2+i%3, []string{"exact", "gossip"}[i%2], 5+i%3, []string{"old", "old-shadow-new", "new-shadow-old", "new"}[i%4], i%2 == 0)
}

// Operators ask, limits and hosts change, and the Node stops while callers use its limiters. Each call
// returns, no slot is held more often than the limit says, and all slots are given back. The race
// detector runs this too.
func TestAllThatANodeDoesAtOnce(t *testing.T) {
	t.Parallel()
	source := memory.New(limits(t, atOnce(t, 0)))
	nodes, members := cluster(t, 2, source, headgate.WithLimiter(limiter.WithListener(func([]limiter.Event) {})))
	n := nodes[0]
	hosts := n.Ring().Hosts()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	var held atomic.Int64
	var turns []*atomic.Int64
	forever := func(f func(i int)) {
		done := new(atomic.Int64)
		turns = append(turns, done)
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				f(i)
				done.Add(1)
			}
		})
	}
	all := func(most int64) func() bool {
		return func() bool {
			return !slices.ContainsFunc(turns, func(done *atomic.Int64) bool { return done.Load() < most })
		}
	}
	for range 2 {
		forever(func(i int) {
			short, done := context.WithTimeout(ctx, time.Millisecond)
			defer done()
			for _, key := range []string{fmt.Sprint("auto:", i%5), "exact", "moves", fmt.Sprint("shared:", i%5), "nobody"} {
				l := n.For(key)
				l.Allow()
				_ = l.Wait(short)
				l.Reserve().Cancel()
				e := l.Take(short, 2, -1)
				e.Settle(i % 4)
				e.Cancel()
				l.Charge(1)
				l.SetDemand(float64(i%3 - 1))
				limiter.AllowAll(short, limiter.Cost{Limiter: l, N: 1}, limiter.Cost{Limiter: n.For("moves"), N: 1})
			}
		})
		forever(func(i int) {
			short, done := context.WithTimeout(ctx, time.Millisecond)
			defer done()
			release, err := n.For("slots").Acquire(short, 1+i%2, limiter.Priority(i%3))
			if err != nil {
				return
			}
			defer release()
			if now := held.Add(1); now > 2*(5+2) { // of both nodes, by any of the limits
				t.Errorf("%d callers hold slots", now)
			}
			held.Add(-1)
		})
	}
	forever(func(i int) {
		n.Explain(ctx, "auto:1")
		n.Trace(ctx, "auto:1", i%2 == 0)
		n.Reset(ctx, "exact")
	})
	forever(func(int) {
		n.Group().Inspect("moves")
		n.Group().Counts(func(c limiter.Count) { c.Level() })
		n.Group().Compared(func(string, stage.Divergence) {})
		for _, key := range n.Group().Keys() {
			n.Group().Inspect(key)
			n.Owned(key)
		}
		n.Standings()
	})
	forever(func(i int) { source.Set(limits(t, atOnce(t, i))); time.Sleep(time.Millisecond) })
	forever(func(i int) {
		next := hosts
		if i%2 == 1 {
			next = []ringpop.Host{{Address: n.Address()}}
		}
		if err := members.Set(next); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
	})
	eventually(t, "all have had many turns", all(30))
	if err := n.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, "callers go on at a Node that has stopped", all(45))
	cancel()
	running.Wait()
	if st, ok := n.Group().Inspect("slots"); ok && len(st.Shares) > 0 && st.Shares[0].Held != 0 {
		t.Errorf("%d slots are held", st.Shares[0].Held)
	}
}
