// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/filewatch"
)

var _ dynamicconfig.Source = (*Source)(nil)

// Source is one file. Safe for concurrent use. Make it with New.
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

// New makes a Source of the file at path. It reads nothing yet. A relative
// path is taken from the working directory of now.
func New(path string, options ...Option) *Source {
	s := &Source{path: filepath.Clean(path)}
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
	data, err := filewatch.Read(s.path, dynamicconfig.MaxSize)
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
