// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/filewatch"
)

// Files of keys and of seeds are read as all files of a daemon are: no half of one that is being
// written, which could be a shorter key, and no pipe, which would block Stop for ever.
func TestNoHalfOfAFileAndNoPipeIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	read := map[string]func() error{
		"keys":  func() error { _, err := readKeys(path); return err },
		"seeds": func() error { _, err := File(path)(t.Context()); return err },
	}
	for name, text := range map[string]string{"keys": strings.Repeat("A", 32) + "\n", "seeds": "10.0.0.8:7946\n"} {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := read[name](); !errors.Is(err, filewatch.ErrWriting) {
			t.Errorf("%s while they are written: %v", name, err)
		}
		if err := errors.Join(f.Close(), read[name]()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := read[name](); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s of a pipe: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
