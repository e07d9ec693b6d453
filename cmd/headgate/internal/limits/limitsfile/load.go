// SPDX-License-Identifier: Apache-2.0

package limitsfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/headgate/headgate/dynamicconfig"
	folder "github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/internal/filewatch"
)

// Load reads and parses one file of limits, or a folder of them.
func Load(stdin io.Reader, file string) (*dynamicconfig.Snapshot, error) {
	return loadChecked(stdin, file, func(*dynamicconfig.Snapshot) error { return nil })
}

// loadChecked is Load with a check.
func loadChecked(stdin io.Reader, file string, check func(*dynamicconfig.Snapshot) error) (*dynamicconfig.Snapshot, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		s, err := folder.New(file).Load(context.Background())
		if err == nil {
			err = check(s)
		}
		return s, err
	}
	name, data, err := Read(stdin, file)
	if err != nil {
		return nil, err
	}
	return dynamicconfig.ParseChecked(name, data, check)
}

// Read reads a file, or stdin if file is -. name is what messages call it. Of a file that is too
// big, Read returns just enough for the parser to refuse it.
func Read(stdin io.Reader, file string) (name string, data []byte, err error) {
	in := stdin
	if name = "stdin"; file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return file, nil, filewatch.Remedied(err)
		}
		defer func() { _ = f.Close() }() // it was only read
		name, in = file, f
	}
	data, err = io.ReadAll(io.LimitReader(in, dynamicconfig.MaxLargeSize+1))
	return name, data, err
}

// WriteNew writes a file. It is an error if the file is there already, so that a command
// does not overwrite limits in force by accident.
func WriteNew(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: choose another name, or remove it", file)
	}
	if err != nil {
		return filewatch.RemediedWrite(err, file)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(file)) // half a file is worse than none
	}
	return err
}

// LimitOf returns the limit of a rule as a file has it.
func LimitOf(r *dynamicconfig.Rule) string {
	for name, value := range r.Fields() {
		if name == "limit" {
			return fmt.Sprint(value)
		}
	}
	return ""
}
