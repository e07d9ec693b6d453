// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/headgatetest"
)

// Under auto, a host asks seven times a second for callers that cannot wait. What fills up
// at the owner in between is lost if the burst is smaller. docs/config.md has the figures.
func TestASmallBurstCostsAutoAFewPercentOfTheLimit(t *testing.T) {
	const limit = 800.0
	for _, tt := range []struct {
		burst int     // in ms of the limit
		least float64 // part of the limit
	}{{5, 0.94}, {10, 0.955}, {20, 0.98}, {50, 0.999}} {
		synctest.Test(t, func(t *testing.T) {
			key := headgatetest.NewNode(t, fmt.Sprintf("limits: [{key: k, limit: %v/s, burst: %v}]", limit, limit*float64(tt.burst)/1000)).For("k")
			time.Sleep(5 * time.Second)
			allowed, at := 0, time.Now()
			for ms := range 20_000 {
				if key.Allow() && ms >= 10_000 {
					allowed++
				}
				at = at.Add(time.Millisecond)
				time.Sleep(time.Until(at))
			}
			if part := float64(allowed) / limit / 10; part < tt.least || part > 1.001 {
				t.Errorf("a burst of %d ms: %.4f of the limit, want %v", tt.burst, part, tt.least)
			}
		})
	}
}
