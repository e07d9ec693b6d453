// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"testing"
	"time"
)

func TestToldIsBounded(t *testing.T) {
	told, now := newTold(), time.Unix(1_800_000_000, 0)
	for i := range 2 * maxTold {
		told.note(uint64(i), 1, now.Add(time.Minute))
	}
	if len(told.leases) != maxTold {
		t.Errorf("%d leases are remembered, and %d is the most", len(told.leases), maxTold)
	}
	newest := uint64(2*maxTold - 1)
	if got := told.has(newest, now.Add(59*time.Second)); got != 1 {
		t.Errorf("the newest lease is of %v, want 1", got)
	}
	if got := told.has(newest, now.Add(time.Minute)); got != 0 {
		t.Errorf("a lease that has ended is of %v", got)
	}
}

func TestToldIsOfOneHostAndResource(t *testing.T) {
	told := newTold()
	seen := make(map[uint64]bool)
	for _, names := range [][2]string{{"server/a", "b"}, {"server/a", "c"}, {"server/ab", ""}, {"server/", "ab"}, {"server/b", "a"}} {
		seen[told.id(names[0], names[1])] = true
	}
	if len(seen) != 5 {
		t.Errorf("%d ids of 5 names", len(seen))
	}
}
