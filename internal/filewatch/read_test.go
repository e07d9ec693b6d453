// SPDX-License-Identifier: Apache-2.0

package filewatch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/filewatch"
)

// Each file of a daemon is read as editors of other systems write it: settings, limits, policies,
// members, keys, certificates and passwords.
func TestAFileIsReadAsOtherSystemsWriteIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for data, want := range map[string]string{"\ufeffa\n": "a\n", "a\n": "a\n", "\xff\xfea\x00": ""} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := filewatch.Read(path, 10)
		if string(text) != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", data, text, err)
		}
		if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "save it as UTF-8")) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

// The error about a path that is not a regular file names its kind, such as a folder.
func TestAFolderIsNoFile(t *testing.T) {
	folder := t.TempDir()
	if _, err := filewatch.Read(folder, 10); err == nil || err.Error() != folder+" is a folder: name a file" {
		t.Error(err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	_, err := filewatch.Read(filepath.Join(t.TempDir(), "none"), 10)
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), ": create it, or correct the path") {
		t.Error(err)
	}
	// Root may read all files, so nothing is read here.
	err = filewatch.Remedied(&fs.PathError{Op: "open", Path: "limits.yaml", Err: fs.ErrPermission})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), fmt.Sprintf("limits.yaml: permission denied: let the user that runs this (uid %d) read", os.Geteuid())) {
		t.Error(err)
	}
}

func TestErrorsOfWritesSayWhatToDo(t *testing.T) {
	for cause, want := range map[error]string{
		fs.ErrPermission: fmt.Sprintf("permission denied: let the user that runs this (uid %d) write in the folder /etc/headgate, or run it as a user who may", os.Geteuid()),
		syscall.EROFS:    "read-only file system: the folder /etc/headgate is on a file system that is not to be written",
		syscall.ENOSPC:   "no space left on device: make room on the disk of the folder /etc/headgate",
	} {
		err := filewatch.RemediedWrite(&fs.PathError{Op: "open", Path: "/etc/headgate/.new", Err: cause}, "/etc/headgate/limits.yaml")
		if !errors.Is(err, cause) || err.Error() != "open /etc/headgate/.new: "+want {
			t.Error(err)
		}
	}
}
