// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"syscall"
	"testing"
	"time"
)

// CPUTime is what this process has taken of all processors, in user and system mode. Other programs
// on the machine do not add to it.
func CPUTime(t testing.TB) time.Duration {
	t.Helper()
	var taken syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &taken); err != nil {
		t.Fatal(err)
	}
	return time.Duration(taken.Utime.Nano() + taken.Stime.Nano())
}
