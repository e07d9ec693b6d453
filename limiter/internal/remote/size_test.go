// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math/bits"
	"testing"
	"unsafe"
)

// A host with 100,000 keys has as many of these. What only keys need whose grant does not
// cover their events, and what all keys have in common, is not in them. The allocator gives
// one word more 16 bytes more.
func TestAKeyThatIsAskedForTakesLittleMemory(t *testing.T) {
	if bits.UintSize != 64 {
		t.Skip("the bounds are of 64 bits")
	}
	if size := unsafe.Sizeof(Stage{}); size > 128 {
		t.Errorf("a Stage has %d bytes", size)
	}
	if size := unsafe.Sizeof(Auto{}); size > 144 {
		t.Errorf("an Auto has %d bytes", size)
	}
}
