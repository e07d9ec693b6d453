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
