// SPDX-License-Identifier: Apache-2.0

package costs

import "runtime"

// Allocations returns the allocations of one run, and their bytes, when run is
// run so many times. Before each run it calls prepare, which may be nil and is
// not counted. What is not the same in each run, or is not run's, is rounded
// away. Nothing else may run meanwhile.
func Allocations(runs int, prepare, run func()) (allocs, bytes float64) {
	if prepare == nil {
		prepare = func() {}
	}
	prepare()
	run() // what happens once
	var fewest, least uint64
	for round := range 3 {
		var count, size uint64
		for range runs {
			prepare()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run()
			runtime.ReadMemStats(&after)
			count += after.Mallocs - before.Mallocs
			size += after.TotalAlloc - before.TotalAlloc
		}
		if round == 0 || count < fewest {
			fewest = count
		}
		if round == 0 || size < least {
			least = size
		}
	}
	return float64(fewest / uint64(runs)), float64(least / uint64(runs))
}

// HeapOf returns the bytes of heap that what build returns holds on to.
// Nothing else may run meanwhile.
func HeapOf(build func() any) float64 {
	before := heap()
	built := build()
	after := heap()
	runtime.KeepAlive(built)
	return float64(after) - float64(before)
}

func heap() uint64 {
	var m runtime.MemStats
	// The second empties what pools kept over the first.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
