// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/headgatetest"
)

// Without a cluster above, keys that share what it leases have nothing but their fallback, as
// docs/leases.md says.
func TestWithoutAParentKeysUseTheirFallback(t *testing.T) {
	for fallback, want := range map[string]int{
		"even":                          1000,
		"closed":                        0,
		"safe, safe_capacity: 3/s":      300,
		"even, algorithm: fair-share":   1000,
		"closed, algorithm: fair-share": 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			node := headgatetest.NewNode(t, `limits: [{key: k, limit: 10/s, burst: 10, parent: true, learning: 0s, fallback: `+fallback+`}]`)
			allowed := 0
			for range 2000 {
				if node.For("k").Allow() {
					allowed++
				}
				time.Sleep(50 * time.Millisecond)
			}
			if allowed < want || allowed > want+10 {
				t.Errorf("fallback %s: %d of %d", fallback, allowed, want)
			}
		})
	}
}
