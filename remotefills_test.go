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

// A remote bucket fills by the limit that its key has, also while a rule has hosts decide by themselves. It used to
// fill by the limit of the last rule that had it decide: a limit that was lowered meanwhile gave a second burst, and
// one that was raised gave too little.
func TestARemoteBucketFillsByTheLimitOfItsKey(t *testing.T) {
	const burst, lasts = 200, 10 // tokens, and seconds
	for _, remote := range []string{"exact", "auto", "gossip"} {
		for _, between := range []string{"even", "request-weighted", remote} {
			for _, tt := range []struct{ before, meanwhile, least, most int }{
				{before: 20, meanwhile: 1, least: lasts, most: lasts + 20}, // what comes in until the owner hears of the rule
				{before: 1, meanwhile: 20, least: burst * 3 / 4, most: burst},
			} {
				synctest.Test(t, func(t *testing.T) {
					rule := func(algorithm string, limit int) *dynamicconfig.Snapshot {
						return limits(t, fmt.Sprintf("defaults: {update_interval: 500ms, lease: 5s}\nlimits: [{key: k, limit: %d/s, burst: %d, algorithm: %s}]", limit, burst, algorithm))
					}
					source := memory.New(rule(remote, tt.before))
					nodes, _ := bubble.StartWith(t, 1, func(int) dynamicconfig.Source { return source })
					time.Sleep(time.Second)
					all := func() (passed int) {
						for nodes[0].For("k").Allow() {
							passed++
						}
						return passed
					}
					all()
					source.Set(rule(between, tt.meanwhile))
					time.Sleep(lasts * time.Second)
					source.Set(rule(remote, 1))
					time.Sleep(time.Second)
					if passed := all(); passed < tt.least || passed > tt.most {
						t.Errorf("%s, and %s for %d s: limits of %d/s and then %d/s: %d passed, want %d to %d", remote, between, lasts, tt.before, tt.meanwhile, passed, tt.least, tt.most)
					}
				})
			}
		}
	}
}
