// SPDX-License-Identifier: Apache-2.0

package shadow_test

import (
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A stage that is nil refuses everything, on either side, and is measured as such.
func TestAStageThatIsNilRefusesEverything(t *testing.T) {
	now, many := stage.Now(), limiter.NewBucket(100, 100).Limiter().Stage()
	for mode, allows := range map[dynamicconfig.Mode]bool{
		dynamicconfig.ModeOld: false, dynamicconfig.ModeOldShadowNew: false, dynamicconfig.ModeNewShadowOld: true, dynamicconfig.ModeNew: true,
	} {
		for name, s := range map[string]stage.Stage{
			"pair":     shadow.NewPair(now, nil, many, mode, nil),
			"limiters": shadow.New(nil, limiter.FromStage(many), mode).Stage(),
			"*Limiter": shadow.New((*limiter.Limiter)(nil), limiter.FromStage(many), mode).Stage(),
			"*Bucket":  shadow.New((*limiter.Bucket)(nil), limiter.FromStage(many), mode).Stage(),
			"*shadow":  shadow.New((*shadow.Limiter)(nil), limiter.FromStage(many), mode).Stage(),
			"migrator": shadow.Migrator().Stages(now, nil, many, mode, nil),
		} {
			if got := s.Allow(t.Context(), now); got.OK() != allows {
				t.Errorf("%s, %v: %v", name, mode, got)
			}
		}
	}
	if got := shadow.New(nil, nil, dynamicconfig.ModeNew).Allow(); got {
		t.Error("two limiters that are nil allow an event")
	}
}
