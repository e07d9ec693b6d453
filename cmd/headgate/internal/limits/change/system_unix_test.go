// SPDX-License-Identifier: Apache-2.0

//go:build unix

package change

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file of root:headgate with the permissions 0640 stays one that the daemon can read.
func TestAFileKeepsItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte("limits: []"), 0o640); err != nil {
		t.Fatal(err)
	}
	const group = 12345
	if err := os.Chown(path, -1, group); err != nil {
		t.Skip("only root may give files away: ", err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(path, "limits: []", before); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if is := after.Sys().(*syscall.Stat_t); is.Gid != group || after.Mode() != before.Mode() || os.SameFile(before, after) {
		t.Errorf("group %d, %v; want %d, %v", is.Gid, after.Mode(), group, before.Mode())
	}
}
