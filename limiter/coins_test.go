// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/rpc/usage"
)

// Callers that give events back change nothing for later events: chance refuses as many of
// them.
func TestWhatIsGivenBackDoesNotLetOthersPass(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		g := NewGroup(snapshot(t, weighted(100)), 4, WithSeed(1))
		k, passed := g.For("k"), 0
		allowAt(k, 0, 1)
		answer(t, g, second, 0.1, 100, usage.FloorDrop, time.Minute)
		for range 10_000 {
			if e := takeAt(k, second, 1, 0); e.OK() {
				if passed++; cancels {
					e.settle(second, 0)
				}
			}
		}
		if passed < 900 || passed > 1100 {
			t.Errorf("cancelled: %v: %d of 10000 passed, want about 0.1 of them", cancels, passed)
		}
	}
}

// Which events of a rule that is enforced in part pass does not depend on what else a host
// does with random numbers: a repeated run lets the same events pass.
func TestTheSameEventsPassInARepeatedRun(t *testing.T) {
	run := func(t *testing.T, waits bool) (passed [64]bool) {
		synctest.Test(t, func(t *testing.T) {
			rule := alone(100, 1)
			g := NewGroup(snapshot(t, rule), 1, WithSeed(7))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if waits {
				g.For("k").AllowN(time.Now(), 1)
				go func() { _ = g.For("k").WaitN(ctx, 1) }()
				synctest.Wait()
			}
			rule.Limit, rule.Enforce = 1, 0.5
			g.Configure(snapshot(t, rule))
			synctest.Wait()
			for i := range passed {
				passed[i] = g.For("k").AllowN(time.Now(), 2)
			}
		})
		return passed
	}
	if a, b := run(t, false), run(t, true); a != b {
		t.Errorf("alone: %v, beside a caller that waits: %v", a, b)
	}
}
