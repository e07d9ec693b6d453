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
	m := New(scope)
	r := m.Rule("k")
	for range 3 {
		r.Waits(math.MaxInt64)
		r.Charged(math.MaxInt64)
		r.Refused(stage.TooCostly, math.MaxInt64, false)
	}
	m.Flush()
	for _, name := range []string{"waited+rule=k", "charged+rule=k", "rejected+reason=too-costly,rule=k"} {
		if got := scope.Snapshot().Counters()["limiter."+name].Value(); got != 3*bucket.MaxCost {
			t.Errorf("%s is %d", name, got)
		}
	}
}

// 10,000 rules have metrics of their own, so what a rule does not need costs much in /metrics.
func TestARuleHasFewMetricsUntilItNeedsMore(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	m := New(scope)
	r := m.Rule("k")
	before := len(scope.Snapshot().Counters())
	counters := func() int {
		m.Flush()
		return len(scope.Snapshot().Counters()) - before
	}
	r.Counts.Allowed = 1
	if n := counters(); n != 9 { // five, and four reasons to reject
		t.Errorf("a rule has %d counters", n)
	}
	r.Diverged(stage.Divergence{Both: 1})
	r.Refused(stage.Canceled, 1, false)
	r.Refused(stage.Limited, 1, false)
	if n := counters(); n != 9+5+1 {
		t.Errorf("a rule under a migration, whose callers leave, has %d counters", n)
	}
}
