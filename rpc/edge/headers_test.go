// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"net/http"
	"testing"
)

// Under auto, a host that hardly uses a key holds some tokens of it and almost no
// rate. A caller must not learn from that that the key is used up for 27,000 years.
func TestAPartWithoutARateHasNoFields(t *testing.T) {
	for _, tc := range []struct {
		limit, burst, left float64
		policy, state      string
	}{
		{10, 20, 19, `"default";q=20;w=2`, `"default";r=19;t=1`},
		{0, 0, 0, "", ""},
		{0, 5, 5, `"default";q=5`, `"default";r=5`},
		{1.0 / 3600, 10, 0, `"default";q=10;w=36000`, `"default";r=0;t=36000`},
		{2.2737367544323206e-12, 2, 0, "", ""},
	} {
		if policy, state := RateLimit(Policy{}, tc.limit, tc.burst, tc.left); policy != tc.policy || state != tc.state {
			t.Errorf("limit %v, burst %v, left %v: %q and %q", tc.limit, tc.burst, tc.left, policy, state)
		}
	}
	rule := Policy{Known: true, Limit: 10, Burst: 20}
	if policy, state := RateLimit(rule, 2.2737367544323206e-12, 2, 0); policy != `"default";q=20;w=2` || state != "" {
		t.Errorf("with a rule of 10/s: %q and %q", policy, state)
	}
}

// A field that is empty is not sent at all: libraries for structured fields refuse an empty item.
func TestARateLimitWithoutAStateIsLeftOut(t *testing.T) {
	h := http.Header{}
	SetRateLimit(h, &Decision{Policy: Policy{Known: true, Limit: 100, Burst: 100}, Limit: 2e-11, Burst: 100})
	if _, there := h["Ratelimit"]; there || h.Get("RateLimit-Policy") != `"default";q=100;w=1` {
		t.Errorf("%v", h)
	}
	SetRateLimit(h, &Decision{Policy: Policy{Known: true, Limit: 100, Burst: 100}, Limit: 100, Burst: 100, Left: 9})
	if h.Get("RateLimit") != `"default";r=9;t=1` {
		t.Errorf("%v", h)
	}
}
