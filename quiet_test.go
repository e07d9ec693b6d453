// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/bubble"
)

// Hosts that use little of a large burst keep it when the rule of their key changes. A grant lends a host a few tokens,
// so the host's own part begins with few. That part was taken for one whose tokens had been used, and the bucket at the
// owner was charged with them: no event passed, though 6 of 480 tokens were used.
func TestAQuietClusterKeepsItsBurstThroughChangesOfRule(t *testing.T) {
	const burst = 480
	migrates := func(mode string) string { return "migrate: {from: auto, to: even, mode: " + mode + "}" }
	for _, hosts := range []int{1, 3} {
		for _, steps := range [][]string{
			{"algorithm: auto", "algorithm: even", "algorithm: exact"},
			{"algorithm: auto", "algorithm: even", "algorithm: auto"},
			{"algorithm: auto", "algorithm: even", "algorithm: auto", "algorithm: even", "algorithm: exact"},
			{"algorithm: request-weighted", "algorithm: even", "algorithm: exact"},
			{migrates("old"), migrates("new"), "algorithm: exact"},
			{migrates("old"), migrates("new"), migrates("old")},
		} {
			synctest.Test(t, func(t *testing.T) {
				rules := func(how string) *dynamicconfig.Snapshot {
					return limits(t, "defaults: {update_interval: 500ms, lease: 5s}\nlimits: [{key: k, limit: 60/h, burst: 480, idle_after: 1h, "+how+"}]")
				}
				source := memory.New(rules(steps[0]))
				nodes, _ := bubble.StartWith(t, hosts, func(int) dynamicconfig.Source { return source })
				time.Sleep(time.Second)
				allow := func() (passed int) {
					for _, n := range nodes {
						if n.For("k").AllowN(time.Now(), 1) {
							passed++
						}
					}
					return passed
				}
				used := 0
				for i, how := range steps {
					if i > 0 {
						source.Set(rules(how))
					}
					for range 2 {
						used += allow()
						time.Sleep(2 * time.Second)
					}
				}
				passed := 0
				for range burst {
					passed += allow()
					time.Sleep(100 * time.Millisecond)
				}
				// What hosts were lent, and did not use, the owner counts as used for some time.
				if left := burst - used; passed < left*3/4 || passed > left+2 {
					t.Errorf("%d hosts, %v: %d were used, and then %d pass, of %d", hosts, steps, used, passed, burst)
				}
			})
		}
	}
}
