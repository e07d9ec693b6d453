// SPDX-License-Identifier: Apache-2.0

// Package follow keeps what files say while they change: certificates, tokens, policies.
//
//	policy, err := follow.Open("policy", []string{path}, 1<<20, parse, log)
//	go policy.Run(ctx)
//	policy.Current() // the last good one
//
// Files that are broken, gone or being written change nothing: what was good last stays
// in force, and the log says why.
//
// Out of scope: what is in the files, and how changes are noticed (internal/filewatch). What was
// good last is one atomic pointer.
package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/filewatch"
)

// poll is how often files are read, in case the system reports no changes.
const poll = 500 * time.Millisecond

// Files are read together, and make one T. Use Open. Current and Newest are safe for
// concurrent use.
type Files[T any] struct {
	what  string
	paths []string
	most  int64
	parse func(texts []string) (T, error)
	log   *slog.Logger

	good   atomic.Pointer[T]
	newest atomic.Bool // good is what the files say now

	// For Open, and then for the goroutine of Run.
	seen   []string // that good is made of
	broken string   // the last error
	logged bool     // it was logged
}

// Open reads the files at paths, of at most most bytes each. parse makes a T of their
// texts, which are in the order of paths. what names the T in errors and log lines.
func Open[T any](what string, paths []string, most int64, parse func(texts []string) (T, error), log *slog.Logger) (*Files[T], error) {
	f := &Files[T]{what: what, paths: paths, most: most, parse: parse, log: log}
	if _, err := f.read(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	f.newest.Store(true)
	return f, nil
}

// Current is the last good T.
func (f *Files[T]) Current() T { return *f.good.Load() }

// Newest reports whether Current is what the files say now.
func (f *Files[T]) Newest() bool { return f.newest.Load() }

// Run follows the files until ctx ends. Call it once.
func (f *Files[T]) Run(ctx context.Context) {
	filewatch.Files(ctx, f.paths, filewatch.Options{Poll: poll, Log: f.log}, f.look)
}

// look reads the files. What is broken is read a second time before that is logged: it
// may be half-way to something better, as a certificate is that comes before its key.
func (f *Files[T]) look() (again bool) {
	changed, err := f.read()
	switch {
	case errors.Is(err, filewatch.ErrWriting):
		return true
	case err == nil:
		switch {
		case changed:
			f.log.Info(f.what + " changed, and the new one is in force")
		case f.logged:
			f.log.Info(f.what + " can be used again, and is the one in force")
		}
		f.broken, f.logged = "", false
		f.newest.Store(true)
		return false
	case err.Error() != f.broken:
		f.broken, f.logged = err.Error(), false
		return true
	}
	f.newest.Store(false)
	if !f.logged {
		f.logged = true
		f.log.Error(f.what+" cannot be used, the last good one stays in force: mend the file", "error", err)
	}
	return false
}

// read makes a T of the files, if they are not what they were.
func (f *Files[T]) read() (changed bool, err error) {
	texts := make([]string, len(f.paths))
	for i, path := range f.paths {
		text, err := filewatch.Read(path, f.most)
		if err == nil && int64(len(text)) > f.most {
			err = fmt.Errorf("%s has more than %d bytes", path, f.most)
		}
		if err != nil {
			return false, err
		}
		texts[i] = string(text)
	}
	if f.seen != nil && slices.Equal(texts, f.seen) {
		return false, nil
	}
	next, err := f.parse(texts)
	if err != nil {
		return false, err
	}
	f.seen = texts
	f.good.Store(&next)
	return true, nil
}
