// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	databasesql "database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/sourcetest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) {
	sourcetest.MaybeWrite(open)
	waittest.Main(m)
}

func open(dir string) sourcetest.Sourced { return New(dir, WithPoll(10*time.Millisecond)) }

// newDir is a directory that is not there yet. Its name needs care in a URL.
func newDir(t *testing.T) string { return filepath.Join(t.TempDir(), "a ?b%20#&mode=memory") }

func TestStore(t *testing.T) { sourcetest.Store(t, open, newDir) }

func TestSource(t *testing.T) {
	sourcetest.Source(t, func(t *testing.T) sourcetest.Place {
		dir := newDir(t)
		source := open(dir)
		t.Cleanup(func() {
			if err := source.Close(); err != nil {
				t.Error(err)
			}
		})
		return sourcetest.Place{
			Source: source,
			Put:    func(text string) { sourcetest.Put(t, open, dir, text) },
			Break:  func() { remove(t, dir) },
		}
	})
}

// remove deletes the file, and what SQLite keeps beside it.
func remove(t *testing.T, dir string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(dir, FileName+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func TestTwoWritersLoseNothing(t *testing.T) {
	changes := 100
	if testrun.Long() {
		changes = 1000
	}
	sourcetest.Race(t, open, newDir(t), changes)
}

func TestKilledInTheMiddleOfWrites(t *testing.T) {
	times := 10
	if testrun.Long() {
		times = 200
	}
	sourcetest.Crash(t, open, newDir(t), times)
}

func TestOnlyAChangeMakesTheFile(t *testing.T) {
	dir := newDir(t)
	s := open(dir)
	defer s.Close()
	_, err := s.Newest(t.Context())
	if !errors.Is(err, history.ErrEmpty) || !strings.Contains(err.Error(), filepath.Join(dir, FileName)+": its directory is not there") {
		t.Errorf("Newest = %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a look has made the directory: %v", err)
	}
	if _, err := s.Append(t.Context(), history.Change{Text: "limits: []", Author: "a"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700 | fs.ModeDir, filepath.Join(dir, FileName): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has the mode %v: %v", path, info.Mode(), err)
		}
	}
}

func TestAFileThatIsNoDatabase(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(strings.Repeat("limits: []\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(dir)
	defer s.Close()
	if _, err := s.Newest(t.Context()); err == nil || errors.Is(err, history.ErrEmpty) || !strings.Contains(err.Error(), "not a database (26): "+filepath.Join(dir, FileName)+" is damaged: move it away") {
		t.Errorf("Newest = %v", err)
	}
	if _, err := s.Append(t.Context(), history.Change{Text: "limits: []", Author: "a"}); err == nil {
		t.Error("a change of what is no database")
	}
}

// storedText is that of the version of stored.
const storedText = "limits: [{key: a, limit: 1/s}]"

// stored is the path of a file in dir that has one version.
func stored(t *testing.T, dir string) string {
	t.Helper()
	s := open(dir)
	_, err := s.Append(t.Context(), history.Change{Text: storedText, Author: "a"})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, FileName)
}

// The end of a file is lost, as on a full disk that a copy was made to, or a page has become zeros.
func TestADamagedFile(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"no end": func(path string) error { return os.Truncate(path, 3*4096) },
		"no second page": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			clear(data[4096 : 2*4096])
			return os.WriteFile(path, data, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := stored(t, dir)
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			s := open(dir)
			defer s.Close()
			if _, err := s.Newest(t.Context()); err == nil || !strings.Contains(err.Error(), path+" is damaged: move it away") {
				t.Errorf("Newest = %v", err)
			}
		})
	}
}

// A page of the text has become zeros, or bytes by chance, or one bit of it is another, which SQLite cannot
// know: it has no checksums.
func TestADamagedText(t *testing.T) {
	for name, damage := range map[string]string{"zeros": "\x00\x00\x00\x00\x00\x00", "not UTF-8": "\xb0\xb0", "another key": "limits: [{key: b"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := stored(t, dir)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(data, []byte(storedText))
			copy(data[at:], damage)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(dir)
			defer s.Close()
			if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "version 1 is damaged: ") {
				t.Errorf("Load = %v", err)
			}
			if _, err := history.Restore(t.Context(), s, 1, history.Change{Base: 1, Author: "a"}); err == nil || !strings.Contains(err.Error(), "version 1 is damaged: ") {
				t.Errorf("Restore = %v", err)
			}
			if _, err := s.Append(t.Context(), history.Change{Base: 1, Text: "limits: []", Author: "a"}); err != nil {
				t.Errorf("a change does not mend it: %v", err)
			}
			if _, err := s.Load(t.Context()); err != nil {
				t.Errorf("Load after the change: %v", err)
			}
		})
	}
}

// Another user than the daemon's may read the file and not write beside it, which is not enough.
func TestAFileOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	s := open(dir)
	if _, err := s.Append(t.Context(), history.Change{Text: "limits: []", Author: "a"}); err != nil {
		t.Fatal(err)
	}
	f := &file{path: filepath.Join(dir, FileName)}
	db, err := databasesql.Open("sqlite", "file:"+f.path+"?mode=ro")
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "DELETE FROM headgate_limits"); err == nil || !strings.Contains(f.remedy(err), "as the user of the daemon") {
		t.Errorf("%v: %s", err, f.remedy(err))
	}
}

// The disk has no room for more.
func TestAFullDisk(t *testing.T) {
	f := &file{path: stored(t, t.TempDir())}
	db, err := databasesql.Open("sqlite", f.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // the bound is of a connection
	if _, err := db.ExecContext(t.Context(), "PRAGMA max_page_count = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE more AS SELECT zeroblob(100000)"); err == nil || !strings.Contains(f.remedy(err), "look whether the disk of "+f.path) {
		t.Errorf("%v: %s", err, f.remedy(err))
	}
}

// On a read-only file system, SQLite cannot make the files that it needs beside the database.
func TestNothingCanBeWrittenBesideTheFile(t *testing.T) {
	dir := t.TempDir()
	path := stored(t, dir)
	if err := os.Mkdir(path+"-wal", 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(dir)
	defer s.Close()
	if _, err := s.Newest(t.Context()); err == nil || !strings.Contains(err.Error(), "SQLite writes to files beside "+path) {
		t.Errorf("Newest = %v", err)
	}
}

// A release does not touch tables of a newer one.
func TestANewerReleasesTables(t *testing.T) {
	dir := t.TempDir()
	f := &file{path: filepath.Join(dir, FileName)}
	s := open(dir)
	if _, err := s.Append(t.Context(), history.Change{Text: "limits: []", Author: "a"}); err != nil {
		t.Fatal(err)
	}
	db, err := f.open(false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "INSERT INTO headgate_migrations (version_id, is_applied) VALUES (9999, 1)")
	if err := errors.Join(err, db.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(dir)
	defer s.Close()
	if _, err := s.Newest(t.Context()); err == nil || !strings.Contains(err.Error(), "of a newer release") {
		t.Errorf("Newest = %v", err)
	}
}

// An earlier release has stored a version without a checksum. A change of it, and what is seen of it, are as ever.
func TestAVersionOfAnEarlierRelease(t *testing.T) {
	dir := t.TempDir()
	path := stored(t, dir)
	db, err := databasesql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "UPDATE headgate_limits SET fingerprint = 'f'"); err != nil {
		t.Fatal(err)
	}
	s := open(dir)
	defer s.Close()
	if v, err := s.Get(t.Context(), 1); err != nil || v.Fingerprint != "f" || v.Damaged {
		t.Errorf("Get = %+v, %v", v, err)
	}
	if _, err := s.Append(t.Context(), history.Change{Base: 1, Seen: "f", Text: storedText, Author: "a"}); err != nil {
		t.Error(err)
	}
}

// Versions whose time the disk has changed are listed with the others. No calendar, and so no JSON, has such a time.
func TestATimeThatCannotBeIsLeftOut(t *testing.T) {
	for _, micros := range []int64{1<<62 + 7, -1 << 62} {
		dir := t.TempDir()
		db, err := databasesql.Open("sqlite", stored(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), "UPDATE headgate_limits SET time = ?", micros); err != nil {
			t.Fatal(err)
		}
		s := open(dir)
		defer s.Close()
		all, err := s.List(t.Context(), 0, 9)
		if err != nil || len(all) != 1 || !all[0].Time.IsZero() {
			t.Fatalf("%d: %+v, %v", micros, all, err)
		}
		if _, err := json.Marshal(all[0].Time); err != nil {
			t.Error(err)
		}
	}
}

// A list of versions, for which a page asks, and the newest one, for which each daemon asks twice a second, are found
// without their texts, which may have 16 MiB each.
func TestVersionsAreListedWithoutTheirTexts(t *testing.T) {
	store := New(t.TempDir())
	defer store.Close()
	const versions = 30
	for i := range versions {
		text := fmt.Sprintf("limits: []\n# %d\n%s", i, strings.Repeat("# "+strings.Repeat("x", 61)+"\n", 900<<10/64))
		if _, err := store.Append(t.Context(), history.Change{Base: int64(i), Text: text, Author: "ada", Message: "large"}); err != nil {
			t.Fatal(err)
		}
	}
	least := func(f func() error) time.Duration { // on a busy machine, the shortest of several tells
		shortest := time.Hour
		for range 10 {
			began := time.Now()
			if err := f(); err != nil {
				t.Fatal(err)
			}
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	one := least(func() error { _, err := store.Get(t.Context(), 7); return err })
	list := least(func() error {
		all, err := store.List(t.Context(), 0, 2*versions)
		if len(all) != versions {
			t.Fatal(len(all), err)
		}
		return err
	})
	if list > one {
		t.Errorf("%d versions are listed in %v, and one is read with its text in %v", versions, list, one)
	}
}
