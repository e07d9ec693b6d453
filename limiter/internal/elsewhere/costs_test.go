// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"math"
	"testing"
)

func TestUsualCosts(t *testing.T) {
	var c Costs
	for range 100 {
		if usual := c.Usual(100); usual > 100 {
			t.Fatalf("events that cost 100 usually cost %v", usual)
		}
	}
	if usual := c.Usual(0); usual < 99 {
		t.Errorf("after 100 events that cost 100, they usually cost %v", usual)
	}
	if usual := c.Usual(1); usual < 50 {
		t.Errorf("after one event that costs 1, they usually cost %v", usual)
	}
	for range 100 {
		c.Usual(1)
	}
	if usual := c.Usual(1); usual > 1.01 || usual < 1 {
		t.Errorf("after 100 events that cost 1, they usually cost %v", usual)
	}
	if usual := c.Usual(math.MaxInt64); math.IsInf(usual, 0) || usual < 1e17 {
		t.Errorf("after an absurd event they usually cost %v", usual)
	}
}
