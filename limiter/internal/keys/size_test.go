// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"math/bits"
	"testing"
	"unsafe"
)

// Each live key has a State. The allocator gives one word more 16 bytes more.
func TestAStateIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(State{}); bits.UintSize == 64 && size > 112 {
		t.Errorf("a State has %d bytes", size)
	}
}
