// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"math"
	"testing"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// Huge costs do not make a counter overflow.
func TestHugeCostsCountAsMuchAsBucketsCount(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	m, r := New(scope), new(Rule)
	for range 3 {
		r.Waits(math.MaxInt64)
		r.Charged(math.MaxInt64)
		r.Refused(stage.TooCostly, math.MaxInt64, false)
	}
	m.Flush("k", r)
	for _, name := range []string{"waited+rule=k", "charged+rule=k", "rejected+reason=too-costly,rule=k"} {
		if got := scope.Snapshot().Counters()["limiter."+name].Value(); got != 3*bucket.MaxCost {
			t.Errorf("%s is %d", name, got)
		}
	}
}
