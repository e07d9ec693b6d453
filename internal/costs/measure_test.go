// SPDX-License-Identifier: Apache-2.0

package costs

import "testing"

func TestAllocationsAreTheRunsAlone(t *testing.T) {
	var kept, once [][]byte
	allocs, bytes := Allocations(10,
		func() { kept = append(kept, make([]byte, 5000)) },
		func() {
			if once == nil {
				once = make([][]byte, 100)
			}
			sink = make([]byte, 64)
			sink = make([]byte, 64)
		})
	if allocs != 2 || bytes != 128 {
		t.Errorf("%v allocations of %v bytes, want 2 of 128", allocs, bytes)
	}
	if len(kept) != 31 {
		t.Errorf("prepared %d times, want once before each run", len(kept))
	}
}

func TestHeapIsWhatStays(t *testing.T) {
	const size = 8 << 20
	got := HeapOf(func() any {
		sink = make([]byte, size) // not kept
		sink = nil
		return make([]byte, size)
	})
	if got < size*0.99 || got > size*1.01 {
		t.Errorf("%v bytes, want %d", got, size)
	}
}
