// SPDX-License-Identifier: Apache-2.0

package change

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileThatCannotBeReplacedStays(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(filepath.Join(dir, "none", "limits.yaml"), "limits: []", info); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "limits.yaml", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(filepath.Join(dir, "limits.yaml"), "limits: []", info); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".headgate*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
