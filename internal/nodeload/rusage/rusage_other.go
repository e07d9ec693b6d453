// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rusage

import (
	"errors"
	"time"
)

var errNotLinux = errors.New("what a process takes is measured on Linux only")

// CPUTime returns an error: it is implemented on Linux only.
func CPUTime() (time.Duration, error) { return 0, errNotLinux }

// Resident returns an error: it is implemented on Linux only.
func Resident() (now, most int64, err error) { return 0, 0, errNotLinux }
