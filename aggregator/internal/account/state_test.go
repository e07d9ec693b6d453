// SPDX-License-Identifier: Apache-2.0

package account

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// A report that no host can mean does not hide for ever by how much hosts exceed the limit.
func TestAMeterIsRightAgainAfterAnAbsurdReport(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 20}
	var m Meter
	m.Use(0, limit, 1<<53)
	if over := m.Over(0, limit, time.Second); over != longest*limit.Rate-limit.Rate {
		t.Errorf("at once: %v over", over)
	}
	now := time.Duration(longest+2) * time.Second
	if over := m.Over(now, limit, time.Second); over != 0 {
		t.Errorf("after an hour: %v over", over)
	}
	m.Use(now, limit, 100)
	if over := m.Over(now, limit, time.Second); over != 70 {
		t.Errorf("100 of 20 and of 10/s: %v over, want 70", over)
	}
}
