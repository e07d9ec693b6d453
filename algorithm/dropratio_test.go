// SPDX-License-Identifier: Apache-2.0

package algorithm

import "testing"

func TestDropRatioIsTheSameForAll(t *testing.T) {
	limit := Limit{Rate: 100, Burst: 10}
	for _, tt := range []struct {
		demands []Rates
		pass    float64
	}{
		{[]Rates{{50, 0}, {10, 0}}, 1},
		{[]Rates{{100, 50}, {0, 50}}, 0.5},
		{[]Rates{{}, {}}, 1},
	} {
		grants := make([]Grant, len(tt.demands))
		DropRatio{}.Share(limit, tt.demands, grants)
		for i, g := range grants {
			if !near(g.Weight, tt.pass) {
				t.Errorf("%v: host %d lets %v pass, want %v", tt.demands, i, g.Weight, tt.pass)
			}
		}
	}
}
