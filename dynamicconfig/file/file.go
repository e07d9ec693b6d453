// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

var _ dynamicconfig.Source = (*Source)(nil)

// Source is one file. Safe for concurrent use. Make it with New.
type Source struct {
	path   string
	poll   time.Duration
	settle time.Duration
	logger *slog.Logger

	// deaf leaves out notifications, to test the poll.
	deaf bool

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
			s.poll = d
		}
	}
}

// WithSettle sets how long the file must stay quiet before it is read; > 0,
// default 50ms. Longer delays a change, and reads fewer half-written files.
func WithSettle(d time.Duration) Option {
	return func(s *Source) {
		if d > 0 {
			s.settle = d
		}
	}
}

// WithLogger sets where Watch says that it gets no notifications and only
// polls; default nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(s *Source) {
		if l != nil {
			s.logger = l
		}
	}
}

// New makes a Source of the file at path. It reads nothing yet. A relative
// path is taken from the working directory of now.
func New(path string, options ...Option) *Source {
	s := &Source{
		path:   filepath.Clean(path),
		poll:   30 * time.Second,
		settle: 50 * time.Millisecond,
		logger: slog.New(slog.DiscardHandler),
	}
	if abs, err := filepath.Abs(path); err == nil {
		s.path = abs
	}
	for _, o := range options {
		o(s)
	}
	return s
}

// Load implements dynamicconfig.Source. Errors of a missing file match
// fs.ErrNotExist.
func (s *Source) Load(ctx context.Context) (*dynamicconfig.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	snapshot, now, err := s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = now
	return snapshot, err
}

// read reads and parses the file.
func (s *Source) read() (*dynamicconfig.Snapshot, state, error) {
	data, err := readBounded(s.path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("config file is missing: create it, or correct the path: %w", err)
		} else {
			err = fmt.Errorf("config file cannot be read: %w", err)
		}
		return nil, state{err: err.Error(), seen: true}, err
	}
	snapshot, err := dynamicconfig.Parse(filepath.Base(s.path), data)
	return snapshot, state{hash: sha256.Sum256(data), seen: true}, err
}

// readBounded reads a regular file, and no more of it than Parse takes.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would block
		return nil, fmt.Errorf("%s is a %v, not a regular file: name a file", path, info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, dynamicconfig.MaxSize+1))
}
