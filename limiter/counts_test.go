// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

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

// An event that costs more than any may is rejected, although it is no demand, so that those who watch
// what a change of limits rejects see it.
func TestEventsThatCostTooMuchCountAsRejected(t *testing.T) {
	for name, text := range map[string]string{
		"by the burst":     `{key: k, limit: 1000/s, burst: 4, algorithm: even}`,
		"by max_cost":      `{key: k, limit: 1000/s, burst: 10, max_cost: 4, algorithm: even}`,
		"though let past":  `{key: k, limit: 1000/s, burst: 4, enforce: 0%, algorithm: even}`,
		"in one of two":    `{key: k, limit: 1000/s, burst: 4, migrate: {from: even, to: request-weighted, mode: old-shadow-new}}`,
		"of a shared rule": `{key: "*", limit: 1000/s, burst: 4, algorithm: even, shared: true}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := limiter.NewGroup(traceLimits(t, "limits: ["+text+"]"), 1)
			now := time.Now()
			g.For("k").AllowN(now, 5)
			g.For("k").AllowN(now, 5)
			g.For("k").AllowN(now, 3)
			g.For("k").AllowN(now, -1)
			g.Counts(func(c limiter.Count) {
				if c.Allowed != 3 || c.Rejected != 10 {
					t.Errorf("allowed %d, rejected %d; want 3 and 10", c.Allowed, c.Rejected)
				}
			})
			key := "k"
			if name == "of a shared rule" {
				key = "*"
			}
			if of, _ := g.Inspect(key); of.Shares[0].Rejected != 10 {
				t.Errorf("Inspect has %d as rejected", of.Shares[0].Rejected)
			}
		})
	}
}

// To ask whether a key is decided elsewhere is no use of it, and takes no place of another key.
func TestElsewhereMakesNoKeyLive(t *testing.T) {
	g := limiter.NewGroup(traceLimits(t, `limits:
  - {key: "far:*", limit: 10/s, algorithm: exact, max_keys: 1}
  - {key: "near:*", limit: 10/s, algorithm: even}
  - {key: "slots:*", limit: 10 in-flight}
`), 1, limiter.WithRemote("exact", make(plainRemote)), limiter.WithRemote("auto", make(plainRemote)))
	for key, want := range map[string]bool{"far:1": true, "far:2": true, "near:1": false, "slots:1": false, "none": false, "": false} {
		if got := g.Elsewhere(key); got != want {
			t.Errorf("%q is decided elsewhere: %t", key, got)
		}
	}
	if keys := g.Keys(); len(keys) > 0 {
		t.Errorf("keys %v are in use", keys)
	}
}
