// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/bubble"
)

// A key keeps its tokens when its algorithm changes and its burst with it, as it does when only its burst changes. One
// that went to a remote bucket with a larger burst used to get the difference at once, and so a part of a burst with each
// such change. One that left auto used to keep only what its host had been lent, and later got some loans twice. The owner
// of one that came to elastic began with a full pool. How much elastic has not lent, a host that leaves it does not know.
func TestAChangeOfAlgorithmAndBurstKeepsTheTokens(t *testing.T) {
	algorithms := []string{"even", "exact", "auto", "gossip", "request-weighted"}
	for _, from := range algorithms {
		for _, to := range append(algorithms, "elastic") {
			for _, tt := range []struct{ before, after, uses, want int }{
				{before: 100, after: 100, uses: 20, want: 80},
				{before: 100, after: 50, uses: 20, want: 50},
				{before: 100, after: 50, uses: 80, want: 20},
				{before: 50, after: 100, uses: 20, want: 30},
				{before: 50, after: 100, uses: 50, want: 0},
			} {
				if from == to {
					continue
				}
				least, most, runs := tt.want-2, tt.want+2, 1 // for rounding
				if from == "auto" {                          // a loan may come back to the owner only when its lease ends
					least, runs = least-tt.before*3/10, 10 // runs differ by when the owner lends
				}
				if to == "auto" { // whose owner may owe four events, because a host may still have what it was lent
					most += 4
				}
				if to == "elastic" { // which lends at most 3/4 of a burst, and keeps the rest
					least -= tt.after / 4
				}
				for range runs {
					synctest.Test(t, func(t *testing.T) {
						rule := func(algorithm string, burst int) *dynamicconfig.Snapshot {
							return limits(t, fmt.Sprintf("defaults: {update_interval: 500ms, lease: 5s}\nlimits: [{key: k, limit: 1/h, burst: %d, algorithm: %s}]", burst, algorithm))
						}
						source := memory.New(rule(from, tt.before))
						nodes, _ := bubble.StartWith(t, 1, func(int) dynamicconfig.Source { return source })
						time.Sleep(7 * time.Second) // else owners expect grants of an earlier owner, until its leases have ended
						use := func(most int) (passed int) {
							for range 40 {
								for passed < most && nodes[0].For("k").Allow() {
									passed++
								}
								time.Sleep(100 * time.Millisecond) // a host that asks an owner does not ask without a pause
							}
							return passed
						}
						if passed := use(tt.uses); passed != tt.uses {
							t.Fatalf("%s: %d of a burst of %d passed, want %d", from, passed, tt.before, tt.uses)
						}
						source.Set(rule(to, tt.after))
						time.Sleep(time.Millisecond)
						if passed := use(1000); passed < least || passed > most {
							t.Errorf("%s with a burst of %d, and %s with %d: %d passed after %d, want %d", from, tt.before, to, tt.after, passed, tt.uses, tt.want)
						}
					})
				}
			}
		}
	}
}
