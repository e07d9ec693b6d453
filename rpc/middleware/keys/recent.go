// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"hash/maphash"
	"sync/atomic"
)

// recentKeys is how many keys a Template remembers. A key has at most 1 kB.
const recentKeys = 256

// recent has the keys that were made last, so that the key of a busy caller is not made
// anew for each request. The zero recent is empty. Safe for concurrent use.
type recent [recentKeys]atomic.Pointer[string]

var seed = maphash.MakeSeed()

// text is string(b).
func (r *recent) text(b []byte) string {
	at := &r[maphash.Bytes(seed, b)%recentKeys]
	if last := at.Load(); last != nil && *last == string(b) {
		return *last
	}
	key := string(b)
	at.Store(&key)
	return key
}
