// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// With Go's 100, there may be as much garbage as there is in use before it is collected.
// Floods of requests on all ports at once took more memory than docs/edges.md promises. So a
// daemon that uses much has less garbage. A daemon that uses little gains nothing by that.
//
// The runtime gives memory that a flood took back to the system late, and that memory counts
// until then. So the daemon bounds all memory of the runtime to mostMemory, or to 1.75 times the
// memory in use if that is more: else a daemon that needs more than mostMemory for its keys would
// collect garbage all the time. By gcPercent alone it would have 1.5 times as much, and stacks.
const (
	gcPercent  = 50
	gcFrom     = 64 << 20  // bytes in use
	mostMemory = 400 << 20 // bytes
)

// collectSooner has garbage collected by gcPercent while more than gcFrom is in use, and
// bounds memory. GOMEMLIMIT, if it is set, is the bound instead.
var collectSooner = sync.OnceFunc(func() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(mostMemory)
	}
	afterCollection(false)
})

// afterCollection looks at what is in use after the next collection, and after each later one.
func afterCollection(sooner bool) {
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		used := int64(0)
		if live[0].Value.Kind() == metrics.KindUint64 {
			used = int64(live[0].Value.Uint64())
		}
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(max(mostMemory, used/4*7))
		}
		much := used >= gcFrom
		if much != sooner {
			percent := 100
			if much {
				percent = gcPercent
			}
			debug.SetGCPercent(percent)
		}
		afterCollection(much)
	})
}
