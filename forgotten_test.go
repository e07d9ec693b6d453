// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/bubble"
)

// Keys that are used once are forgotten, also if their limit changes while they are in use.
func TestKeysAreForgottenAfterTheirLimitChanges(t *testing.T) {
	for _, algorithm := range []string{"auto", "exact", "elastic", "even", "request-weighted", "gossip", "drop-ratio", "fair-share"} {
		synctest.Test(t, func(t *testing.T) {
			rules := func(limit int) *dynamicconfig.Snapshot {
				return limits(t, fmt.Sprintf("defaults: {update_interval: 200ms, lease: 2s, idle_after: 1s}\nlimits: [{key: \"k:*\", limit: %d/s, burst: 100, algorithm: %s}]", limit, algorithm))
			}
			source := memory.New(rules(400))
			nodes, _ := bubble.StartWith(t, 1, func(int) dynamicconfig.Source { return source })
			time.Sleep(time.Second)
			for i := range 40 {
				for _, n := range nodes {
					n.For(fmt.Sprint("k:", i)).Allow()
				}
				time.Sleep(100 * time.Millisecond)
				if i%10 == 9 {
					source.Set(rules(400 + i/10%2*400))
				}
			}
			time.Sleep(time.Minute)
			for i, n := range nodes {
				if keys := n.Group().Keys(); len(keys) > 0 {
					t.Errorf("%s: host %d has %d keys: %q", algorithm, i, len(keys), keys)
				}
			}
		})
	}
}

// So are keys whose owner dies while they are in use.
func TestKeysAreForgottenAfterTheirOwnerDies(t *testing.T) {
	for _, algorithm := range []string{"auto", "exact", "elastic", "even", "request-weighted"} {
		synctest.Test(t, func(t *testing.T) {
			source := memory.New(limits(t, "defaults: {update_interval: 200ms, lease: 2s, idle_after: 1s}\nlimits: [{key: \"k:*\", limit: 400/s, burst: 100, algorithm: "+algorithm+"}]"))
			nodes, wire := bubble.StartWith(t, 3, func(int) dynamicconfig.Source { return source })
			time.Sleep(time.Second)
			for i := range 300 {
				nodes[0].For(fmt.Sprint("k:", i)).Allow()
				time.Sleep(20 * time.Millisecond)
				if i == 150 {
					wire.Cut("10.0.0.3:7933")
				}
			}
			time.Sleep(5 * time.Minute)
			if keys := nodes[0].Group().Keys(); len(keys) > 0 {
				t.Errorf("%s: %d keys: %q", algorithm, len(keys), keys)
			}
		})
	}
}
