// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	databasesql "database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite" // which is "sqlite"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sql"
	"github.com/headgate/headgate/internal/filewatch"
)

// FileName is the name of the file in a store's directory.
const FileName = "limits.db"

// busyTimeout bounds how long a statement waits for another process, in milliseconds.
const busyTimeout = "5000"

// Option changes a store.
type Option func(*file)

// WithPoll sets how often the store looks for changes of other processes; > 0, default
// history.DefaultPoll.
func WithPoll(d time.Duration) Option { return func(f *file) { f.poll = d } }

// New makes a store in the directory dir. It opens nothing yet. The first Append makes the
// directory and the file, for their owner only.
func New(dir string, options ...Option) *sql.Store {
	f := &file{path: filepath.Join(dir, FileName)}
	if abs, err := filepath.Abs(f.path); err == nil {
		f.path = abs
	}
	for _, o := range options {
		o(f)
	}
	return sql.New(sql.Backend{
		Name: f.path, Open: f.open, Stale: f.stale, Remedy: f.remedy, Damaged: damaged, Dialect: goose.DialectSQLite3, Index: index,
	}, f.poll)
}

// index has all of a version but its text. To find what comes after a text, SQLite reads all of the text.
const index = `CREATE INDEX IF NOT EXISTS headgate_limits_without_text ON headgate_limits (number, author, message, time, fingerprint)`

// file is a SQLite file.
type file struct {
	path string
	poll time.Duration

	mu     sync.Mutex // guards what follows
	opened os.FileInfo
}

// open opens the file for a Store.
func (f *file) open(create bool) (*databasesql.DB, error) {
	if create {
		if err := f.create(); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(f.path)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: its directory is not there, and %w", f.path, history.ErrEmpty)
		}
		return nil, fmt.Errorf("%s: %w", f.path, history.ErrEmpty)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file: name another directory", f.path)
	}
	db, err := databasesql.Open("sqlite", f.name())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened = info
	return db, nil
}

// name is the file's, for the driver. A commit is on the disk before it is acknowledged.
// Readers do not wait for writers, and a writer waits for another.
func (f *file) name() string {
	u := url.URL{Scheme: "file", Path: f.path, RawQuery: url.Values{
		"mode":    {"rw"}, // only open makes the file
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(" + busyTimeout + ")", "journal_mode(WAL)", "synchronous(FULL)"},
	}.Encode()}
	return u.String()
}

// create makes an empty file, if there is none, and has its name on the disk.
func (f *file) create() error {
	if _, err := os.Stat(f.path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("the directory of the limits: %w", filewatch.RemediedWrite(err, filepath.Dir(f.path)))
	}
	empty, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("the file of the limits: %w", filewatch.RemediedWrite(err, f.path))
	}
	err = errors.Join(giveTo(empty, filepath.Dir(f.path)), empty.Close())
	if dir, failed := os.Open(filepath.Dir(f.path)); failed == nil {
		_ = dir.Sync() // where the system can
		_ = dir.Close()
	}
	return err
}

// stale reports whether another file, or none, is at the path now.
func (f *file) stale() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	return err != nil || !os.SameFile(f.opened, info)
}

// Result codes of SQLite, https://sqlite.org/rescode.html; the lowest byte of an extended one.
const (
	busy         = 5
	readOnly     = 8
	inputOutput  = 10
	corrupt      = 11
	full         = 13
	cannotOpen   = 14
	notADatabase = 26
)

// codeOf is SQLite's result code, without what extends it; 0 for other errors.
func codeOf(err error) int {
	if failed, ok := errors.AsType[*driver.Error](err); ok {
		return failed.Code() & 0xff
	}
	return 0
}

// damaged reports whether an error is about a file that is no database any more.
func damaged(err error) bool { return codeOf(err) == corrupt || codeOf(err) == notADatabase }

// remedy is what to do about an error of SQLite.
func (f *file) remedy(err error) string {
	if damaged(err) {
		return f.path + " is damaged: move it away, with -wal and -shm beside it, and put a backup there, or apply the limits again"
	}
	switch codeOf(err) {
	case busy:
		return "another process has been writing to " + f.path + " for long: try again, or find out which one it is"
	case inputOutput, full:
		return "look whether the disk of " + f.path + " is full or broken: SQLite needs room beside it, even to read"
	case readOnly, cannotOpen:
		return "SQLite writes to files beside " + f.path + ", even to read: run this as the user of the daemon, on a file system that is not read-only"
	}
	return ""
}
