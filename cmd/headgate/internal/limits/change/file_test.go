// SPDX-License-Identifier: Apache-2.0

package change

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// A user may write to a file and not to its folder. The error names the user and the right that is missing.
func TestAFolderThatMayNotBeWrittenHasARemedy(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	err := replaceFile(filepath.Join(dir, "limits.yaml"), "limits: []", nil)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "nothing was changed: ") || !strings.Contains(err.Error(), "write in the folder "+dir) {
		t.Error(err)
	}
}

// Of two commands that change a file at once, one tells that the other came first.
func TestAChangeOfAFileIsNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var made atomic.Int64
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 20 {
				old, err := os.ReadFile(path)
				n, errNumber := strconv.Atoi(string(old))
				if err = errors.Join(err, errNumber); err != nil {
					t.Error(err)
					return
				}
				switch err := replaceText(path, string(old), strconv.Itoa(n+1), info); {
				case err == nil:
					made.Add(1)
				case !strings.Contains(err.Error(), "came first"):
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if text, err := os.ReadFile(path); err != nil || string(text) != strconv.FormatInt(made.Load(), 10) {
		t.Errorf("%s, %v after %d changes", text, err, made.Load())
	}
}
