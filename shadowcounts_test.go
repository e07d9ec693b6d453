// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/headgatetest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/shadow"
)

// A limiter that is only measured decides about each event once, also where the key's owner is asked
// in the background: the metrics, the listeners and the trace have no decision beside that.
func TestAMeasuredLimiterCountsEachEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 300
		scope := tally.NewTestScope("", nil)
		heard := 0
		node := headgatetest.NewNode(t, "limits: [{key: k, limit: 10/s, burst: 20}]", headgate.WithScope(scope),
			headgate.WithLimiter(limiter.WithListener(func(all []limiter.Event) {
				for _, e := range all {
					if e.Kind != limiter.EventCreated {
						heard++
					}
				}
			})))
		node.Group().Trace("k", true)
		measured := shadow.New(limiter.FromRate(rate.NewLimiter(10, 20)), node.For("k"), dynamicconfig.ModeOldShadowNew)
		for i := range events {
			if i%2 == 0 {
				measured.Allow()
			} else {
				measured.Take(t.Context(), 1, 0).Settle(1)
			}
			synctest.Wait()
			time.Sleep(50 * time.Millisecond)
		}
		traced, _ := node.Group().Traced("k")
		for _, d := range traced {
			if d.Reason == limiter.Canceled {
				t.Fatalf("a decision that was not made is traced: %+v", d)
			}
		}
		if c := measured.Counts(); c.Both+c.OnlyOld+c.OnlyNew+c.Neither != events {
			t.Errorf("compared %+v", c)
		}
		if err := node.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		var counted int64
		for name, c := range scope.Snapshot().Counters() {
			if strings.HasPrefix(name, "headgate.limiter.allowed+") || strings.HasPrefix(name, "headgate.limiter.rejected+") {
				counted += c.Value()
			}
		}
		if counted != events || heard != events {
			t.Errorf("of %d events, %d are counted and listeners heard of %d", events, counted, heard)
		}
	})
}
