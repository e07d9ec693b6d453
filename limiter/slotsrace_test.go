// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"sync"
	"testing"

	"github.com/headgate/headgate/limiter"
)

// With the race detector: callers that acquire while a rule changes between slots and rates, and
// between rates on this host and elsewhere. They look at what decides now, and no lock is held.
func TestCallersAcquireWhileTheRuleChangesItsUnit(t *testing.T) {
	rules := []string{"1000/s, algorithm: even", "1000/s, algorithm: redis", "1000/s, algorithm: auto", "300 in-flight"}
	g := limiter.NewGroup(nil, 1, limiter.WithRemote("redis", moody{}), limiter.WithRemote("auto", moody{}))
	done, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for done.Err() == nil {
				if release, err := g.For("k").Acquire(done, 1); err == nil {
					release()
				}
				g.Elsewhere("k")
			}
		})
	}
	for i := range 2000 {
		g.Configure(traceLimits(t, "limits: [{key: k, limit: "+rules[i%len(rules)]+"}]"))
	}
	stop()
	callers.Wait()
}
