// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math/bits"
	"testing"
	"unsafe"
)

// A host with 100,000 keys has as many of these. What only keys need whose grant does not
// cover their events, and what all keys have in common, is not in them. What decisions need lies in
// one cache line, because the allocator aligns 128 bytes.
func TestAKeyThatIsAskedForTakesLittleMemory(t *testing.T) {
	if bits.UintSize != 64 {
		t.Skip("the bounds are of 64 bits")
	}
	if size := unsafe.Sizeof(Stage{}); size > 120 {
		t.Errorf("a Stage has %d bytes", size)
	}
	if size := unsafe.Sizeof(Auto{}); size != 128 {
		t.Errorf("an Auto has %d bytes, and is not aligned to cache lines", size)
	}
	if second := unsafe.Offsetof(asker{}.Stage) + unsafe.Offsetof(sender{}.outbox); second != 64 {
		t.Errorf("the first line of an Auto ends at %d", second)
	}
}
