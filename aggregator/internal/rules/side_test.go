// SPDX-License-Identifier: Apache-2.0

package rules

import "testing"

func TestASideHasThePartThatItsFallbacksWouldGive(t *testing.T) {
	s := settings(t, nil, `
limits:
  - {key: "even", limit: 100/s}
  - {key: "closed", limit: 100/s, fallback: closed}
  - {key: "open", limit: 100/s, fallback: open}
  - {key: "safe", limit: 100/s, fallback: safe, safe_capacity: 4/s}
  - {key: "safer", limit: 100/s, fallback: safe, safe_capacity: 80/s}
  - {key: "none", limit: 0/s, fallback: safe, safe_capacity: 4/s}
  - {key: "slots", limit: 2 in-flight}
  - {key: "closed slots", limit: 2 in-flight, fallback: closed}
`)
	side := Side{Deciders: 3, Missing: 7}
	for key, want := range map[string]float64{"even": 0.3, "closed": 0, "open": 1, "safe": 0.12, "safer": 1, "none": 0, "slots": 0.5, "closed slots": 0} {
		rule, _ := s.Snapshot.Match(key)
		if got := side.Part(rule); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
		if got := (Side{}).Part(rule); got != 1 {
			t.Errorf("%s, of the whole cluster: %v", key, got)
		}
	}
	s.Side = side
	if later := settings(t, s, `limits: [{key: k, limit: 1/s}]`); later.Side != side {
		t.Errorf("after a change of config: %+v", later.Side)
	}
}
