// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// Hosts that report hold parts of the limit, which become more when the limit does: what is
// granted to another host after that leaves room for it.
func TestPartsOfALimitThatIsRaisedAreNoMoreThanAll(t *testing.T) {
	for _, name := range []string{algorithm.NameFairShare, algorithm.NameProportionalShare} {
		for _, limits := range [][2]rate.Limit{{10, 100}, {100, 10}} {
			rule := dynamicconfig.Rule{Key: "*", Limit: limits[0], Algorithm: name, Lease: time.Minute}
			a := under(t, rule)
			a.Moved(-time.Hour)
			const first = 0.9
			one := wanted(t, a, 0, name, "a", first*float64(limits[0])/1.1, 0).Weight[0]
			rule.Limit = limits[1]
			configured(t, a, time.Second, rule)
			other := wanted(t, a, time.Second, name, "b", 1000, 0).Weight[0]
			if sum := one + other; sum > 1+1e-6 || sum < 1-1e-2 {
				t.Errorf("%s, from %v/s to %v/s: parts of %v and %v of the limit", name, limits[0], limits[1], one, other)
			}
		}
	}
}
