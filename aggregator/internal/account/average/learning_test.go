// SPDX-License-Identifier: Apache-2.0

package average

import (
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// A new owner learns for the interval that hosts had when their keys moved, also if a shorter one is in
// force when the first of them reports.
func TestAShorterIntervalEndsNoLearning(t *testing.T) {
	c := under(algorithm.Weigher{Weigh: algorithm.RequestWeighted, Form: algorithm.FormDemand})
	c.Rule.Learning = time.Minute
	settings := *c.Settings
	c.Settings, settings.Interval = &settings, 20*time.Second
	a := New(0, 0, c)
	shorter := settings
	shorter.Interval = time.Second
	c.Settings = &shorter
	a.Configure(0, c)
	limit := algorithm.Limit{Rate: 100, Burst: 50}
	for now := time.Second; now <= 20*time.Second; now += time.Second {
		r := account.Report{Rates: account.Rates{Allowed: 10}, Elapsed: time.Second, Has: .5}
		a.Report(now, limit, 1, &r)
		if learns := now < 20*time.Second; r.Keeps != learns {
			t.Errorf("at %v the host keeps what it has: %v", now, r.Keeps)
		}
	}
}

// A report that is about no more time than has passed, and what clocks may differ by, overlaps no other.
func TestAReportThatCoversNoEarlierOneDoesNotOverlap(t *testing.T) {
	for over, overlaps := range map[time.Duration]bool{0: false, account.Overlap: false, account.Overlap + 1: true} {
		limit := algorithm.Limit{Rate: 100, Burst: 50}
		a := reporting(algorithm.Weigher{Weigh: algorithm.RequestWeighted, Form: algorithm.FormDemand}, limit, account.Rates{Allowed: 1})
		r := account.Report{Rates: account.Rates{Allowed: 1}, Elapsed: time.Second + over}
		if a.Report(time.Second, limit, 0, &r); r.Overlaps != overlaps {
			t.Errorf("%v more than has passed: it overlaps: %v", over, r.Overlaps)
		}
	}
}
