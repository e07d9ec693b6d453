// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"
	"unsafe"
)

// Fetch reads from three cache lines: there are no more.
func TestAnElasticKeyIsThreeCacheLines(t *testing.T) {
	const line = 64
	var k Account
	if unsafe.Sizeof(uintptr(0)) < 8 {
		if unsafe.Sizeof(k) > 3*line {
			t.Errorf("%d bytes", unsafe.Sizeof(k))
		}
		return
	}
	if unsafe.Offsetof(k.lent) != line || unsafe.Offsetof(k.rows) != 2*line || unsafe.Sizeof(k) != 3*line {
		t.Errorf("lines begin at 0, %d and %d, and end at %d", unsafe.Offsetof(k.lent), unsafe.Offsetof(k.rows), unsafe.Sizeof(k))
	}
}

// Fetch reads from two more lines.
func TestAReportOfAKeyThatIsAskedForNeedsOneMoreCacheLine(t *testing.T) {
	const line = 64
	var k asked
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("an asked is laid out for 64-bit processors")
	}
	if unsafe.Offsetof(k.settled) != 3*line || unsafe.Offsetof(k.asking) != 4*line || unsafe.Sizeof(k)%line != 0 {
		t.Errorf("lines begin at %d and %d, and end at %d", unsafe.Offsetof(k.settled), unsafe.Offsetof(k.asking), unsafe.Sizeof(k))
	}
}
