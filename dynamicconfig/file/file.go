// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/filewatch"
)

var _ dynamicconfig.Source = (*Source)(nil)

// Source is one file, or the files of one folder. Safe for concurrent use. Make it with New.
type Source struct {
	path    string
	options filewatch.Options

	mu     sync.Mutex // guards what follows
	loaded state      // what the last Load found
}

// state is what a reading of the file found, for comparison.
type state struct {
	hash [sha256.Size]byte // of the content
	err  string            // why there is no content
	seen bool              // false: nothing was read yet
}

// Option changes how a Source watches.
type Option func(*Source)

// WithPoll sets how often the content is compared even without a
// notification; > 0, default 30s.
func WithPoll(d time.Duration) Option {
	return func(s *Source) {
		if d > 0 {
			s.options.Poll = d
		}
	}
}

// WithSettle sets how long the file must stay quiet before it is read; > 0,
// default 50ms. Longer delays a change, and reads fewer half-written files.
func WithSettle(d time.Duration) Option {
	return func(s *Source) {
		if d > 0 {
			s.options.Settle = d
		}
	}
}

// WithLogger sets where Watch says that it gets no notifications and only
// polls; default nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(s *Source) {
		if l != nil {
			s.options.Log = l
		}
	}
}

// New makes a Source of the file or folder at path. It reads nothing yet. A relative
// path is taken from the working directory of now. Load refuses an empty path.
func New(path string, options ...Option) *Source {
	s := &Source{path: path}
	if abs, err := filepath.Abs(path); path != "" && err == nil {
		s.path = abs
	}
	for _, o := range options {
		o(s)
	}
	return s
}

// loadSettles is how many settle periods Load waits for a file that is being written.
const loadSettles = 20

// Load implements dynamicconfig.Source. Errors of a missing file match
// fs.ErrNotExist. What is broken, gone or being written is read again before Load
// returns the error, as Watch does: it may be half-way to something better. Load waits
// at most 20 settle periods (1s by default) for what is being written.
func (s *Source) Load(ctx context.Context) (snapshot *dynamicconfig.Snapshot, err error) {
	l := &looking{source: s, update: func(read *dynamicconfig.Snapshot, failed error) { snapshot, err = read, failed }}
	for range loadSettles {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !l.look() || l.reported.seen {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(cmp.Or(s.options.Settle, filewatch.DefaultSettle)):
		}
	}
	if !l.reported.seen { // it still changes
		if snapshot, l.reported, err = s.read(); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = l.reported
	return snapshot, err
}

// read reads and parses the file, or those of the folder.
func (s *Source) read() (*dynamicconfig.Snapshot, state, error) {
	if s.path == "" {
		return unreadable(errors.New("its path is empty: name a file or a folder"))
	}
	if info, err := os.Stat(s.path); err == nil && info.IsDir() {
		return s.readFolder()
	}
	data, err := filewatch.Read(s.path, dynamicconfig.MaxLargeSize)
	if err != nil {
		return unreadable(err)
	}
	snapshot, err := dynamicconfig.Parse(filepath.Base(s.path), data)
	return snapshot, state{hash: sha256.Sum256(data), seen: true}, err
}

func unreadable(err error) (*dynamicconfig.Snapshot, state, error) {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("config file is missing: %w", err)
	} else {
		err = fmt.Errorf("config file cannot be read: %w", err)
	}
	return nil, state{err: err.Error(), seen: true}, err
}

// readFolder reads and parses the files of a folder, by their names.
func (s *Source) readFolder() (*dynamicconfig.Snapshot, state, error) {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return unreadable(filewatch.Remedied(err))
	}
	var files []dynamicconfig.File
	hash := sha256.New()
	left := int64(dynamicconfig.MaxLargeSize)
	for _, e := range entries {
		name := e.Name()
		if ext := filepath.Ext(name); strings.HasPrefix(name, ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		data, err := filewatch.Read(filepath.Join(s.path, name), max(left, 0))
		if err != nil {
			return unreadable(err)
		}
		left -= int64(len(data))
		files = append(files, dynamicconfig.File{Name: name, Data: data})
		fmt.Fprintf(hash, "%q %d\n", name, len(data))
		hash.Write(data)
	}
	if len(files) == 0 {
		return unreadable(fmt.Errorf("no name in the folder %s ends in .yaml or .yml: write a file with limits: [] to have no limits", s.path))
	}
	snapshot, err := dynamicconfig.ParseFiles(filepath.Base(s.path), files)
	return snapshot, state{hash: [sha256.Size]byte(hash.Sum(nil)), seen: true}, err
}
