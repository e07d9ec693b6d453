// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"runtime/debug"
	"syscall"
)

// CollectLess has this process collect garbage after its heap has grown fivefold, unless GOGC says
// otherwise. A TestMain calls it if its package's tests make much garbage in a small heap: it saves a
// sixth of the processors' time. Programs that tests start collect as they always do.
func CollectLess() {
	if _, told := syscall.Getenv("GOGC"); !told {
		debug.SetGCPercent(400)
	}
}
