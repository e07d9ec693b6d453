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
	g.Counts(func(c limiter.Count) {
		if seen[c.Key] {
			t.Errorf("%s twice", c.Key)
		}
		seen[c.Key] = true
		if c.Allowed+c.Rejected == 0 {
			t.Errorf("%s: nothing", c.Key)
		}
	})
	if len(seen) != 6 || !seen["shared:*"] {
		t.Errorf("%v", seen)
	}
	g.Counts(func(c limiter.Count) { seen[c.Key] = c.Allowed >= 0 && c.Rejected >= 0 })
	for key := range seen {
		st, ok := g.Inspect(key)
		if !ok || len(st.Shares) == 0 {
			t.Fatalf("%s is not in use", key)
		}
		g.Counts(func(c limiter.Count) {
			sh := st.Shares[0]
			if c.Key != key {
				return
			}
			if c.Allowed != sh.Allowed || c.Rejected != sh.Rejected || c.Held != sh.Held || c.Weight != sh.Weight || c.Rule.Key != st.Rule {
				t.Errorf("%s: %+v; Inspect has %+v under %s", key, c, sh, st.Rule)
			}
		})
	}
}
