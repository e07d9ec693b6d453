// SPDX-License-Identifier: Apache-2.0

//go:build unix

package change

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// keepOwner gives the file f the owner and the group of the one that it is to replace: the daemon may be
// allowed to read it as one of these.
func keepOwner(f *os.File, replaced os.FileInfo) error {
	made, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := made.Sys().(*syscall.Stat_t)
	was, ok2 := replaced.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
		return fmt.Errorf("the owner and the group of the file cannot be kept, and the daemon may not read it then: change it as its owner, or as root: %w", err)
	}
	return nil
}

// lock keeps other commands from replacing a file in the folder of path, until unlock is called, if the file
// system can: the end of a process unlocks, too.
func lock(path string) (unlock func()) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return func() {} // to replace the file is an error then
	}
	_ = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX)
	return func() { _ = dir.Close() }
}
