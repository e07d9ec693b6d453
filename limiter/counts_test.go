// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"

	"github.com/headgate/headgate/limiter"
)

// Counts says what Inspect says, of each key once.
func TestCountsAreThoseOfInspect(t *testing.T) {
	g := limiter.NewGroup(traceLimits(t, traced), 1)
	for i, key := range []string{"plain", "costly", "soft", "shared:a", "shared:b", "closed", "moved", "nobody"} {
		for range 3 * (i + 2) {
			g.For(key).Allow()
		}
	}
	seen := map[string]bool{}
	g.Counts(func(key string, allowed, rejected int64) {
		if seen[key] {
			t.Errorf("%s twice", key)
		}
		seen[key] = true
		if allowed+rejected == 0 {
			t.Errorf("%s: nothing", key)
		}
	})
	if len(seen) != 6 || !seen["shared:*"] {
		t.Errorf("%v", seen)
	}
	g.Counts(func(key string, allowed, rejected int64) { seen[key] = allowed >= 0 && rejected >= 0 })
	for key := range seen {
		st, ok := g.Inspect(key)
		if !ok || len(st.Shares) == 0 {
			t.Fatalf("%s is not in use", key)
		}
		g.Counts(func(k string, allowed, rejected int64) {
			if sh := st.Shares[0]; k == key && (allowed != sh.Allowed || rejected != sh.Rejected) {
				t.Errorf("%s: %d and %d; Inspect has %d and %d", key, allowed, rejected, sh.Allowed, sh.Rejected)
			}
		})
	}
}
