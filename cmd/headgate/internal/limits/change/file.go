// SPDX-License-Identifier: Apache-2.0

package change

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/filewatch"
)

// inFile changes the text of a file.
func (c *changing) inFile(cmd *cobra.Command, file string, text func(old string) (string, error)) error {
	path, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no such file, %q: name the file of limits first, or a database with --limits-db, or a decider that has one with --admin", file)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a folder: name the file in it that is to change", file)
	}
	_, data, err := limitsfile.Read(nil, path)
	if err != nil {
		return err
	}
	changed, err := text(string(data))
	if err != nil {
		rename(err, file)
		return c.refused(cmd, file, err)
	}
	old, err := dynamicconfig.Parse(file, data)
	if err != nil {
		return c.refused(cmd, file, err)
	}
	s, err := c.checked(cmd, old, file, changed)
	if err != nil {
		return err
	}
	differs, err := c.review(cmd, old, s, false, func() error { return nil })
	if err != nil {
		return err
	}
	c.done.File = file
	if c.dryRun || changed == string(data) {
		fmt.Fprintf(c.people(cmd), "%s%s: nothing was changed\n", differs, file)
		return nil
	}
	if err := replaceText(path, string(data), changed, info); err != nil {
		return err
	}
	c.done.Stored = true
	fmt.Fprintf(c.people(cmd), "%s%s: written\n", differs, file)
	return nil
}

// replaceText is replaceFile, unless the file has another text than old by now.
func replaceText(path, old, text string, replaced os.FileInfo) error {
	defer lock(path)()
	_, now, err := limitsfile.Read(nil, path)
	if err == nil && string(now) != old {
		err = command.WithCode(errors.New("another change of the file came first, and nothing was changed: look at it, and make yours again"), limitsdb.ExitConflict)
	}
	if err != nil {
		return err
	}
	return replaceFile(path, text, replaced)
}

// replaceFile writes a new file and renames it, so that no reader finds half of it. It has the
// permissions and the owner of the replaced one.
func replaceFile(path, text string, replaced os.FileInfo) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".headgate-*")
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", filewatch.RemediedWrite(err, path))
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, keepOwner(f, replaced), f.Chmod(replaced.Mode().Perm()), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(filewatch.RemediedWrite(err, path), os.Remove(f.Name()))
	}
	return err
}

// rename gives the mistakes in err the name of their file, which package edit does not know.
func rename(err error, name string) {
	switch e := err.(type) { //nolint:errorlint // it looks at each part of err itself
	case *dynamicconfig.Error:
		e.Name = name
	case interface{ Unwrap() error }:
		rename(e.Unwrap(), name)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			rename(one, name)
		}
	}
}
