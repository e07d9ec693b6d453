// SPDX-License-Identifier: Apache-2.0

package share

import (
	"strconv"
	"testing"
	"unsafe"
)

// An event that is allowed writes to one cache line, which no two Rates have in
// common: that would cost a third more when several processors decide.
func TestARateBeginsACacheLine(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("a Rate is laid out for 64-bit processors")
	}
	const line = 64
	var r Rate
	if unsafe.Offsetof(r.bucket) != 0 {
		t.Errorf("the bucket is at byte %d", unsafe.Offsetof(r.bucket))
	}
	if size := unsafe.Sizeof(r); size%line != 0 {
		t.Errorf("a Rate has %d bytes: fill it up to a multiple of %d", size, line)
	}
	rates := make([]*Rate, 1000)
	for i := range rates {
		rates[i] = new(Rate)
		if at := uintptr(unsafe.Pointer(rates[i])) % line; at != 0 {
			t.Fatalf("a Rate begins at byte %d of a cache line", at)
		}
	}
}
