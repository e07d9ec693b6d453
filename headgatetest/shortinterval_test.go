// SPDX-License-Identifier: Apache-2.0

package headgatetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/headgatetest"
)

// A host that is offered 400/s of a limit of 100/s gets 100/s, however short the interval is.
func TestDropRatioKeepsTheLimitWithShortIntervals(t *testing.T) {
	for _, interval := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second} {
		t.Run(interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := headgatetest.NewNode(t, fmt.Sprintf(`{defaults: {update_interval: %v}, limits: [{key: a, limit: 100/s, algorithm: drop-ratio}]}`, interval))
				limit := node.For("a")
				admitted := func(d time.Duration) (n float64) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second / 400) {
						if limit.Allow() {
							n++
						}
					}
					return n / d.Seconds()
				}
				admitted(10 * time.Second)
				if got := admitted(20 * time.Second); got > 110 {
					t.Errorf("update_interval %v: %.0f/s admitted, limit 100/s", interval, got)
				}
			})
		})
	}
}
