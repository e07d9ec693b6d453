// SPDX-License-Identifier: Apache-2.0

// Package rusage reads what this process has taken. It knows no other process, and no system but Linux.
package rusage

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// CPUTime is what this process has taken of all processors, in user and
// system mode.
func CPUTime() (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, fmt.Errorf("read the time that this process took: %w", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}

// Resident is the memory that this process has, and the most that it ever
// had, in bytes.
func Resident() (now, most int64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(status) {
		var kb int64
		if _, err := fmt.Sscanf(string(line), "VmRSS: %d kB", &kb); err == nil {
			now = kb << 10
		}
		if _, err := fmt.Sscanf(string(line), "VmHWM: %d kB", &kb); err == nil {
			most = kb << 10
		}
	}
	return now, most, nil
}
