// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"testing"
	"unsafe"
)

// An event that is allowed writes to one cache line. Two of them, or one that
// two shares have in common, would cost a third more when several processors
// decide. A pocket is one, too.
func TestADecisionTouchesOneCacheLine(t *testing.T) {
	const line = 64
	var s share
	if end := unsafe.Offsetof(s.crowd) + unsafe.Sizeof(s.crowd); unsafe.Offsetof(s.bucket) != 0 || end > line {
		t.Errorf("what allows reaches from %d to %d", unsafe.Offsetof(s.bucket), end)
	}
	if size := unsafe.Sizeof(pocket{}); size != line {
		t.Errorf("a pocket has %d bytes", size)
	}
	if size := unsafe.Sizeof(s); size%line != 0 || size > 512 {
		t.Errorf("a share has %d bytes: fill it up to a multiple of %d, of at most 512", size, line)
	}
	shares := make([]*share, 1000)
	for i := range shares {
		shares[i] = new(share)
		if at := uintptr(unsafe.Pointer(shares[i])) % line; at != 0 {
			t.Fatalf("a share begins at byte %d of a cache line", at)
		}
	}
}
