// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"os"
	"strconv"
	"syscall"
)

// OnlyComputes lowers the priority of this process, and of those that it starts. A TestMain
// calls it first if its package's tests take much of the processors' time and none of them
// waits for another process: packages are tested side by side, and others start processes
// that must answer each other in time.
//
// On systems other than Linux it does nothing.
func OnlyComputes() {
	const tasks = "/proc/self/task" // Linux has a priority for each thread; new ones inherit it
	lowered := make(map[string]bool)
	for again := true; again; {
		again = false
		threads, err := os.ReadDir(tasks)
		if err != nil {
			return
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil || lowered[thread.Name()] {
				continue
			}
			// It fails if the thread has ended.
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, 10)
			lowered[thread.Name()], again = true, true
		}
	}
}
