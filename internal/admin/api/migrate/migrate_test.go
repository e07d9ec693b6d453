// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

func TestAModeThatComparesNothingIsJudgedByItself(t *testing.T) {
	for mode, want := range map[dynamicconfig.Mode]string{dynamicconfig.ModeDisabled: Wait, dynamicconfig.ModeOld: Advance, dynamicconfig.ModeNew: Advance} {
		m := Migration{From: "even", To: "elastic"}
		if m.judge(&dynamicconfig.Rule{Migration: &dynamicconfig.Migration{Mode: mode}}, 0); m.Verdict != want || m.Because == "" {
			t.Errorf("%v: %+v", mode, m)
		}
	}
}

func TestAMigrationOfSlotsIsComparedInSlots(t *testing.T) {
	m := Migration{Both: 10}
	if m.judge(&dynamicconfig.Rule{InFlight: true, Migration: &dynamicconfig.Migration{Mode: dynamicconfig.ModeOldShadowNew}}, 0); !strings.HasPrefix(m.Because, "only 10 slots were") {
		t.Error(m.Because)
	}
}
