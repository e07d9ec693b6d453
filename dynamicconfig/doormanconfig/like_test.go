// SPDX-License-Identifier: Apache-2.0

package doormanconfig

import (
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

// Doorman's servers know no priorities, and decide anew at each request.
func TestRulesShareAsDoormansServersDo(t *testing.T) {
	s := imported(t, "resources:\n"+resourceYAML("a", "1", "STATIC", 60, 16)+resourceYAML("b", "2", "NO_ALGORITHM", 60, 16)+resourceYAML("*", "3", "FAIR_SHARE", 2, 1))
	for _, r := range s.Rules() {
		if !r.OneBand || r.Recalculate != dynamicconfig.None {
			t.Errorf("%s: %+v", r.Key, r)
		}
	}
}
