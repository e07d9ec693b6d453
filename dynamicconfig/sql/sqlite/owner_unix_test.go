// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlite

import (
	"os"
	"syscall"
	"testing"
)

// The first version is stored by root, in the directory of the daemon's user.
func TestADatabaseThatRootMakesIsTheDaemons(t *testing.T) {
	dir := t.TempDir()
	const user = 12345
	if err := os.Chown(dir, user, user); err != nil {
		t.Skip("only root may give a directory away: ", err)
	}
	info, err := os.Stat(stored(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if is := info.Sys().(*syscall.Stat_t); is.Uid != user || is.Gid != user || info.Mode() != 0o600 {
		t.Errorf("it is of %d:%d, %v", is.Uid, is.Gid, info.Mode())
	}
}
