// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// With Go's 100, there may be as much garbage as there is in use before it is collected.
// Floods of requests on all ports at once took more memory than docs/edges.md promises. So a
// daemon that uses much has less garbage. To collect what is little sooner gains nothing.
const (
	gcPercent = 50
	gcFrom    = 64 << 20 // bytes in use
)

// collectSooner has garbage collected by gcPercent while more than gcFrom is in use.
var collectSooner = sync.OnceFunc(func() { afterCollection(false) })

// afterCollection looks at what is in use after the next collection, and after each later one.
func afterCollection(sooner bool) {
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		much := live[0].Value.Kind() == metrics.KindUint64 && live[0].Value.Uint64() >= gcFrom
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
