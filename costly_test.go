// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/bubble"
)

// An event that costs more than the burst is refused wherever it comes, so the host that it
// comes to has no use for a part of the limit.
func TestEventsThatCanNeverBeAllowedTakeNothingFromOtherHosts(t *testing.T) {
	// allowed is how many of 600 events at the limit are allowed, while another host asks for
	// cost tokens as often.
	allowed := func(algorithm string, cost int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			nodes, _ := bubble.Start(t, 3, "defaults: {update_interval: 1s}\nlimits: [{key: k, limit: 10/s, burst: 20, algorithm: "+algorithm+"}]")
			for range 600 {
				time.Sleep(100 * time.Millisecond)
				if cost > 0 && nodes[0].For("k").AllowN(time.Now(), cost) {
					t.Errorf("%s: an event of %d is allowed", algorithm, cost)
				}
				if nodes[1].For("k").Allow() {
					n++
				}
			}
		})
		return n
	}
	for _, algorithm := range []string{"elastic", "request-weighted", "auto", "exact", "fair-share"} {
		alone, beside := allowed(algorithm, 0), allowed(algorithm, 100)
		if beside < alone-6 {
			t.Errorf("%s: %d of 600 events are allowed, and without the other host %d", algorithm, beside, alone)
		}
	}
}

// A node counts an event that is too costly by its reason, and not as over the limit.
func TestEventsThatCanNeverBeAllowedAreCountedByTheirReason(t *testing.T) {
	for _, rule := range []string{"algorithm: elastic", "algorithm: even", "algorithm: auto", "algorithm: exact", "migrate: {from: even, to: elastic, mode: old-shadow-new}", "algorithm: even, max_cost: 5"} {
		synctest.Test(t, func(t *testing.T) {
			scope := tally.NewTestScope("", nil)
			nodes, _ := bubble.Start(t, 1, "defaults: {update_interval: 1s}\nlimits: [{key: k, limit: 1/h, burst: 5, "+rule+"}]", headgate.WithScope(scope))
			for range 3 {
				nodes[0].For("k").AllowN(time.Now(), 100)
			}
			for range 9 {
				nodes[0].For("k").Allow()
			}
			time.Sleep(5 * time.Second)
			got := make(map[string]int64)
			for _, c := range scope.Snapshot().Counters() {
				if c.Name() == "headgate.limiter.rejected" && c.Value() > 0 {
					got[c.Tags()["reason"]] += c.Value()
				}
			}
			if want := map[string]int64{"too-costly": 300, "limited": 4}; !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", rule, got, want)
			}
		})
	}
}
