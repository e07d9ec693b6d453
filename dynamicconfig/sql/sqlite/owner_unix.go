// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// giveTo gives f, which root has made in dir, to the owner of dir: that is the user of the daemon, who
// could not open it otherwise.
func giveTo(f *os.File, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if of, ok := info.Sys().(*syscall.Stat_t); ok && of.Uid != 0 {
		return f.Chown(int(of.Uid), int(of.Gid))
	}
	return nil
}
