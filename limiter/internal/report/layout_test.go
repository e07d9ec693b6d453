// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strconv"
	"testing"
	"unsafe"
)

// A round reads ahead from each cache line of a Subject. Without one of them it waits for that line at each key.
func TestReadReadsFromEachCacheLine(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("a Subject is laid out for 64-bit processors")
	}
	var s Subject
	base, lines := uintptr(unsafe.Pointer(&s)), make(map[uintptr]bool)
	for _, field := range []unsafe.Pointer{
		unsafe.Pointer(&s.Rate), unsafe.Pointer(&s.Acked.At), unsafe.Pointer(&s.pulse.askAt), unsafe.Pointer(&s.pulse.gap),
	} {
		lines[(uintptr(field)-base)/64] = true
	}
	if want := int((unsafe.Sizeof(s) + 63) / 64); len(lines) != want {
		t.Errorf("read reads from %d of %d cache lines", len(lines), want)
	}
}
