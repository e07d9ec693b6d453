// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/headgate/headgate/internal/textfile"
)

// ErrWriting is the error of Read while another process writes the file.
var ErrWriting = errors.New("it is being written: close it, or write a new file and rename it")

// Read returns the text in the regular file at path, which may be a link; at most most+1
// bytes of it, so that the caller sees that it is too long. It leaves a byte order mark out.
// Errors match fs.ErrNotExist and ErrWriting.
func Read(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, Remedied(err)
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder: name a file", path)
	case !info.Mode().IsRegular(): // opening a pipe would block
		return nil, fmt.Errorf("%s is not a regular file: name one", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Remedied(err)
	}
	defer f.Close()
	if writing(f) {
		return nil, fmt.Errorf("%s: %w", path, ErrWriting)
	}
	before, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if writing(f) || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return nil, fmt.Errorf("%s: %w", path, ErrWriting)
	}
	if text, err = textfile.Text(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

// Remedied is err, of a file that was to be read, with what to do about it.
func Remedied(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: create it, or correct the path", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let the user that runs this (uid %d) read the file and enter its folders", err, os.Geteuid())
	}
	return err
}

// RemediedWrite is err, of a file at path that was to be written, with what to do about it.
func RemediedWrite(err error, path string) error {
	dir := filepath.Dir(path)
	if abs, failed := filepath.Abs(dir); failed == nil {
		dir = abs
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let the user that runs this (uid %d) write in the folder %s, or run it as a user who may", err, os.Geteuid(), dir)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: the folder %s is on a file system that is not to be written", err, dir)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: make room on the disk of the folder %s", err, dir)
	}
	return err
}
