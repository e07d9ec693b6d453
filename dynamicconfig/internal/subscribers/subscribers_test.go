// SPDX-License-Identifier: Apache-2.0

package subscribers

import (
	"log/slog"
	"slices"
	"testing"
)

func TestChangesAreToldInOrderToThoseWhoSubscribedBefore(t *testing.T) {
	var o Of[int]
	var first, second []int
	o.Change(0) // nobody is there yet
	o.Add(func(c int) {
		if first = append(first, c); c == 1 {
			o.Change(3) // told after what is pending, by the Deliver that goes on
			o.Deliver(slog.Default())
		}
	})
	o.Change(1)
	cancel := o.Add(func(c int) { second = append(second, c) })
	o.Change(2)
	o.Deliver(slog.Default())
	cancel()
	o.Change(4)
	o.Deliver(slog.Default())
	if !slices.Equal(first, []int{1, 2, 3, 4}) || !slices.Equal(second, []int{2, 3}) {
		t.Errorf("told %v and %v", first, second)
	}
}
