// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"os"

	"golang.org/x/sys/unix"
)

// writing reports whether any process has f open for writing, if this process may know.
// The kernel gives a read lease only on a file that no process writes.
func writing(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var lease error
	err = raw.Control(func(fd uintptr) {
		if _, lease = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); lease == nil {
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	})
	return err == nil && lease == unix.EAGAIN
}
