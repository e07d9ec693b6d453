// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"testing"
	"unsafe"
)

// A key without its account is one cache line.
func TestAKeyIsACacheLine(t *testing.T) {
	const line = 64
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("laid out for 64-bit platforms")
	}
	var k Key
	if unsafe.Sizeof(k) != line {
		t.Errorf("%d bytes", unsafe.Sizeof(k))
	}
	keys := make([]*Key, 1000)
	for i := range keys {
		keys[i] = new(Key)
		if at := uintptr(unsafe.Pointer(keys[i])) % line; at != 0 {
			t.Fatalf("a key of %d bytes begins at byte %d of a cache line", unsafe.Sizeof(k), at)
		}
	}
}
