// SPDX-License-Identifier: Apache-2.0

//go:build unix

package daemon

import (
	"math"

	"golang.org/x/sys/unix"
)

// openFiles is how many files this process may have open; a connection is one. The Go runtime has raised the
// soft limit to the hard one.
func openFiles() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return math.MaxUint64
	}
	return uint64(l.Cur) //nolint:unconvert,gosec // some systems have another type
}
