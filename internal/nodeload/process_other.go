// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nodeload

import (
	"errors"
	"time"
)

var errNotLinux = errors.New("what a process takes is measured on Linux only")

func cpuTime() (time.Duration, error) { return 0, errNotLinux }

func resident() (now, most int64, err error) { return 0, 0, errNotLinux }
