// SPDX-License-Identifier: Apache-2.0

package asks

import (
	"testing"
	"time"
)

func TestAsksAreMeasured(t *testing.T) {
	c, err := Measure(t.Context(), Config{Answered: 500 * time.Millisecond, Gone: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if c.Decisions == 0 || c.Asks > c.Decisions || c.CallP50Ms <= 0 || c.CallP99Ms < c.CallP50Ms {
		t.Errorf("while the owner answers: %+v", c)
	}
	for _, g := range []GoneCost{c.Hung, c.Stopped} {
		if g.Decisions == 0 || g.Waited > g.Decisions || g.LongestMs <= 0 {
			t.Errorf("without the owner: %+v", g)
		}
	}
}
