// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/claims"
)

// TestAClaimCostsTheSameAmongManyHosts: where each claim looks at all hosts, 100
// times as many cost 100 times as much. Here it is a few more levels of a tree,
// and memory that is farther away. The quickest of some rounds counts, so that a
// busy machine does not matter.
func TestAClaimCostsTheSameAmongManyHosts(t *testing.T) {
	testrun.NotUnderRace(t, "it counts what one goroutine does")
	for _, algorithm := range []string{"none", "static", "proportional-share", "fair-share"} {
		var few, many time.Duration
		for range 5 { // as long as other programs are in the way
			few, many = claimTime(t, algorithm, 100), claimTime(t, algorithm, 10_000)
			t.Logf("%s: %v among 100 hosts, %v among 10,000", algorithm, few, many)
			if many <= 8*few {
				break
			}
		}
		if many > 8*few {
			t.Errorf("%s: a claim takes %v among 100 hosts and %v among 10,000", algorithm, few, many)
		}
	}
}

func claimTime(t *testing.T, algorithm string, hosts int) time.Duration {
	t.Helper()
	a := leased(t, dynamicconfig.Rule{Limit: rate.Limit(hosts), Algorithm: algorithm, Recalculate: dynamicconfig.None, Learning: dynamicconfig.None})
	asked := make([]*claims.Claims, hosts)
	for i := range asked {
		asked[i] = &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: fmt.Sprint("host", i), Bands: []claims.Band{{Clients: 1, Wants: float64(i%7) / 2}}}}}
		a.Claim(0, asked[i])
	}
	const rounds, each = 20, 2000
	best := time.Hour
	for r := range rounds {
		began := testrun.CPUTime(t)
		for i := range each {
			c := asked[(r*each+i*31)%hosts]
			c.Rows[0].Bands[0].Wants = float64((i+r)%7) / 2
			a.Claim(s, c)
		}
		best = min(best, (testrun.CPUTime(t)-began)/each)
	}
	return best
}
