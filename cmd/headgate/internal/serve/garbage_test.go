// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/headgate/headgate/internal/waittest"
)

func TestGarbageIsCollectedSoonerWhileMuchIsInUse(t *testing.T) {
	eventually := waittest.UntilSeldom
	percent := func() uint64 {
		runtime.GC()
		all := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(all)
		return all[0].Value.Uint64()
	}
	collectSooner()
	eventually(t, "little is in use, and is collected as Go does", func() bool { return percent() == 100 })
	much := make([]byte, gcFrom)
	eventually(t, "much is in use, and is collected sooner", func() bool { return percent() == gcPercent })
	runtime.KeepAlive(much)
	eventually(t, "little is in use again", func() bool { return percent() == 100 })
	if bound := debug.SetMemoryLimit(-1); bound != mostMemory {
		t.Errorf("memory is bounded by %d, want %d", bound, mostMemory)
	}
}
