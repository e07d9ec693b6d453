// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/usage"
)

// A bucket takes a bounded amount of memory at its owner, and none once it is full.
func TestABucketIsSmall(t *testing.T) {
	testrun.NotUnderRace(t, "it measures the memory of one goroutine")
	const keys, most = 100_000, 600
	p := cadence
	p.MaxKeys = keys
	a := New(algorithm.Builtin(), snapshot(t, p, exactRule(1, 1)))
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range keys {
		took(t, a, 0, usage.Take{Key: fmt.Sprintf("login:user-%012d", i), Tokens: 1})
	}
	each := (heap() - before) / keys
	t.Logf("%d bytes for each key of 24 bytes", each)
	if each > most {
		t.Errorf("%d bytes for each key; want at most %d", each, most)
	}
	a.GC(time.Minute)
	if left := heap() - before; a.keys.Len() != 0 || left > keys*16 {
		t.Errorf("%d keys and %d bytes after all were full again", a.keys.Len(), left)
	}
}
