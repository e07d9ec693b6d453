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

// A round reads ahead from each cache line of a Rate. Without one of them it waits for that line at each key.
func TestReadLinesReadsFromEachCacheLine(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("a Rate is laid out for 64-bit processors")
	}
	var r Rate
	base, lines := uintptr(unsafe.Pointer(&r)), make(map[uintptr]bool)
	for _, field := range []unsafe.Pointer{
		unsafe.Pointer(&r.bucket), // Allowed is in its first line
		unsafe.Pointer(&r.active.Limit), unsafe.Pointer(&r.inactive.at), unsafe.Pointer(&r.until),
	} {
		lines[(uintptr(field)-base)/64] = true
	}
	if want := int(unsafe.Sizeof(r) / 64); len(lines) != want {
		t.Errorf("ReadLines reads from %d of %d cache lines", len(lines), want)
	}
}
