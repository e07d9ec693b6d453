// SPDX-License-Identifier: Apache-2.0

package shadow_test

import (
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/shadow"
)

// A migration from or to nothing refuses everything there.
func TestAMigrationWithoutAStageRefuses(t *testing.T) {
	has := limiter.NewBucket(1, 10)
	for name, l := range map[string]*shadow.Limiter{
		"no old": shadow.New(nil, has, dynamicconfig.ModeOldShadowNew), "no new": shadow.New(has, nil, dynamicconfig.ModeNewShadowOld),
		"no stages": shadow.FromStages(nil, nil, dynamicconfig.ModeNew),
	} {
		if l.Allow() {
			t.Errorf("%s: it allows an event", name)
		}
		for mode := range dynamicconfig.Mode(200) {
			l.SetMode(mode)
		}
		l.Charge(1)
	}
}
