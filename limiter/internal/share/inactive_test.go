// SPDX-License-Identifier: Apache-2.0

package share

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

func TestAnOlderClockReadingDoesNotFillTheRestingLevelTwice(t *testing.T) {
	const latest = stage.Instant(100 * time.Second)
	var r inactive
	r.init(0)
	r.set(latest, Level{1, 10}, 0)
	r.charge(0, 0, nil)
	r.set(0, r.Level, r.tokens)
	if r.charge(latest, 0, nil); r.tokens != 0 {
		t.Errorf("%v tokens came in", r.tokens)
	}
}
