// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// Beside a host that wants 1e15 events/s, the sum of all demands has no room for the
// fractions of what the others want. When that host and they are done, the sum is not less
// than nothing: the next host has a rate, and not a debt.
func TestAHostThatWantsVeryMuchLeavesOthersARate(t *testing.T) {
	limit := algorithm.Limit{Rate: 1e9, Burst: 1e9}
	for _, name := range []string{algorithm.NameAuto, algorithm.NameElastic} {
		k := made(name)
		report := func(now time.Duration, host uint32, wants float64) (account.Grant, bool) {
			return k.Report(now, limit, host, &account.Report{Elapsed: time.Second, Wants: wants, Cost: 1})
		}
		report(0, 0, 0) // a new owner listens at first
		for _, others := range []float64{0.18, 0.17, 0.05} {
			report(time.Minute, 1, 1e15)
			report(time.Minute, 2, others)
			report(time.Minute, 3, others)
			report(time.Minute, 1, 0)
			report(time.Minute, 2, 0)
			report(time.Minute, 3, 0)
			if wants, _ := account.Wanted(k); wants != 0 {
				t.Errorf("%s: all hosts together want %v, after they wanted %v each", name, wants, others)
			}
			g, ok := report(time.Minute, 4, 0.01)
			if !ok || !(g.Weight > 0 && g.Used >= 0) {
				t.Errorf("%s: a host that wants little is granted %+v, after others wanted %v each", name, g, others)
			}
			report(time.Minute, 4, 0)
		}
	}
}
