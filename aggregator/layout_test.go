// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"unsafe"
)

// What a key has is in whole cache lines, and what all keys need in the first:
// a key with a state of its own reads no other.
func TestAKeyIsWholeCacheLines(t *testing.T) {
	const line = 64
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("laid out for 64-bit platforms")
	}
	var k key
	if at := unsafe.Offsetof(k.ledger); at != line {
		t.Errorf("the ledger begins at byte %d", at)
	}
	keys := make([]*key, 1000)
	for i := range keys {
		keys[i] = new(key)
		if at := uintptr(unsafe.Pointer(keys[i])) % line; at != 0 {
			t.Fatalf("a key of %d bytes begins at byte %d of a cache line", unsafe.Sizeof(k), at)
		}
	}
}
