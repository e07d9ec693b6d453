// SPDX-License-Identifier: Apache-2.0

package columns_test

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/internal/columns"
)

func TestColumnsThatSayNothingAreLeftOut(t *testing.T) {
	var c columns.Columns
	c.Begin(false)
	c.Fit(4)
	c.Keys[0], c.Allowed[0], c.Rejected[0], c.Elapsed[0] = "a", 3, 1, 2*time.Second
	c.Keys[1] = "b"
	if r := c.First(2); r.Len() != 2 || r.Wants != nil || r.Cost != nil || r.Slots != nil {
		t.Errorf("%+v", r)
	}
	c.SetWants(1, 5)
	c.SetSlots(1, 7)
	if r := c.First(2); !slices.Equal(r.Wants, []float64{2, 5}) || !slices.Equal(r.Slots, []int64{0, 8}) {
		t.Errorf("wants %v, slots %v", r.Wants, r.Slots)
	}

	memory := &c.Keys[0]
	c.Begin(true)
	c.Fit(2)
	c.SetCost(0, 1)
	if r := c.First(1); &r.Keys[0] != memory || c.Keys[1] != "" || r.Cost != nil || len(r.Wants) != 1 || r.Slots != nil {
		t.Errorf("%+v of the same memory", r)
	}
	c.SetWants(1, 5)
	if c.CostOf(0) != 1 || c.Cost != nil {
		t.Errorf("a column of costs %v, all of which are 1", c.Cost)
	}
	c.Fit(4)
	c.SetCost(2, 2)
	c.SetWants(3, 5)
	if r := c.First(4); !slices.Equal(r.Cost, []float64{1, 1, 2, 1}) || c.CostOf(2) != 2 {
		t.Errorf("costs %v", r.Cost)
	}
	c.Begin(true)
	c.Begin(true) // nothing cost more than 1 in between
	if c.Cost != nil {
		t.Errorf("%d costs are kept", len(c.Cost))
	}
}
