// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

// A remote bucket lets no charge make a debt that is deeper than the rule's. An estimate that does not know this shows
// that the bucket lacks what it was not charged with.
func TestAChargeMakesNoDeeperDebtThanTheRule(t *testing.T) {
	rule := &dynamicconfig.Rule{Limit: 1, Burst: 10}
	for _, tt := range []struct{ before, charged, want float64 }{
		{before: 10, charged: 4, want: 6},
		{before: 10, charged: 31, want: -rule.MostDebt()},
		{before: -25, charged: 3, want: -25}, // callers have reserved
	} {
		var e Estimate
		e.Set(1, rule, tt.before)
		if e.ChargeAbove(1, rule, tt.charged); e.Uncapped(1, rule) != tt.want {
			t.Errorf("%v tokens after a charge of %v to one with %v, want %v", e.Uncapped(1, rule), tt.charged, tt.before, tt.want)
		}
	}
}
