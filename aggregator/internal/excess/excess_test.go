// SPDX-License-Identifier: Apache-2.0

package excess_test

import (
	"fmt"
	"testing"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/excess"
)

// Rules that came after 10,000 others are shown together as "…", also if the others are
// gone, as docs/metrics.md says.
func TestRulesThatComeAfterTenThousandOthersAreShownTogether(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	gauges := excess.New(scope)
	shown := func(rule string, over, bound float64) {
		t.Helper()
		for name, want := range map[string]float64{"over_admitted": over, "over_admission_bound": bound} {
			g, ok := scope.Snapshot().Gauges()["aggregator."+name+"+rule="+rule]
			if !ok || g.Value() != want {
				t.Errorf("%s of rule %s is not %v: %v", name, rule, want, g)
			}
		}
	}
	seen := make(excess.Seen)
	for i := range 10_000 {
		seen.Note(fmt.Sprint(i), account.State{Over: 1, Bound: 2})
	}
	gauges.Show(seen)
	shown("9999", 1, 2)

	seen = make(excess.Seen)
	seen.Note("9999", account.State{Over: 3, Bound: 4})
	seen.Note("new", account.State{Over: 5, Bound: 7})
	seen.Note("newer", account.State{Over: 6, Bound: 6})
	gauges.Show(seen)
	shown("0", 0, 0)
	shown("9999", 3, 4)
	shown("…", 6, 7)
	if n := len(scope.Snapshot().Gauges()); n != 2*10_001 {
		t.Errorf("there are %d gauges", n)
	}

	gauges.Show(nil)
	shown("…", 0, 0)
}
