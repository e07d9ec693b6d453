// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Defaults of Options.
const (
	DefaultPoll   = 30 * time.Second
	DefaultSettle = 50 * time.Millisecond
)

// glanceEvery is how often Files asks the system for the times and sizes of the files, if
// the poll is the default.
const glanceEvery = 500 * time.Millisecond

// maxSettles bounds how many settle periods files that are never quiet can put off a
// look.
const maxSettles = 20

// maxRetry is how long Files waits at most before it calls a look again that asked for it.
const maxRetry = time.Second

// Options change how Files watches.
type Options struct {
	// Poll is how often look is called without a notification. Default DefaultPoll, and
	// soon after the time, the size or the identity of a file has changed, which is
	// compared each half a second: a file system over a network notifies of nothing that
	// others write, and nothing notifies of a folder that is replaced far above the file.
	Poll time.Duration

	// Settle is for how long the files must be quiet before look is called; default
	// DefaultSettle. Longer delays a change, and reads fewer half-written files.
	Settle time.Duration

	// Log gets a line for each directory that is only polled; default nowhere.
	Log *slog.Logger

	// Deaf leaves notifications out, for tests of the poll.
	Deaf bool
}

// Files calls look soon after it begins, after each change of what is read at paths, or, of a
// path that is a directory, of what is read in it, and every Poll, until ctx ends. When look returns true, it is called again after Settle, and
// as long as it returns true after twice as long each time, up to a second: a file that is
// broken now may be half-way to something better. One goroutine calls look.
// When the system gives no notifications (its watches may be used up), Files only polls.
func Files(ctx context.Context, paths []string, o Options, look func() (again bool)) {
	w := newWatch(paths, o)
	w.settle = time.NewTimer(w.o.Settle) // a change since the files were last read is one too
	defer w.settle.Stop()
	w.until = time.Now().Add(maxSettles * w.o.Settle)

	var events chan fsnotify.Event // nil never receives
	var lost chan error
	if !o.Deaf {
		notify, err := fsnotify.NewWatcher()
		if err != nil {
			w.o.Log.Warn("files are polled only", "paths", w.paths, "poll", w.o.Poll, "error", err)
		} else {
			defer notify.Close()
			w.notify, events, lost = notify, notify.Events, notify.Errors
		}
	}
	w.follow()
	poll := time.NewTicker(w.o.Poll)
	defer poll.Stop()
	var glances <-chan time.Time // nil never receives
	if o.Poll <= 0 {
		glance := time.NewTicker(glanceEvery)
		defer glance.Stop()
		glances = glance.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				events = nil
			}
			if ok && w.concerns(e) {
				w.stir()
			}
		case _, ok := <-lost: // events were dropped, or a watch failed
			if !ok {
				lost = nil
			}
			w.stir()
		case <-glances:
			if now := glance(w.paths); !slices.EqualFunc(now, w.seen, unchanged) {
				w.seen = now
				w.stir()
			}
		case <-poll.C:
			w.look(look)
		case <-w.settle.C:
			w.until = time.Time{}
			w.look(look)
		}
	}
}

// watch is one call of Files; one goroutine uses it.
type watch struct {
	o      Options
	paths  []string
	notify *fsnotify.Watcher // nil: poll only

	settle *time.Timer     // fires when the files have been quiet
	until  time.Time       // by then look is called in any case; zero when at rest
	retry  time.Duration   // how long the next look waits if the last one asks for it
	names  map[string]bool // whose changes matter now
	dirs   []string        // watched now, sorted
	seen   []fs.FileInfo   // of the files, before they were last looked at
	deafTo string          // the directory whose watch was last warned about
}

func newWatch(paths []string, o Options) *watch {
	if o.Poll <= 0 {
		o.Poll = DefaultPoll
	}
	if o.Settle <= 0 {
		o.Settle = DefaultSettle
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &watch{o: o, retry: o.Settle}
	for _, path := range paths {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		w.paths = append(w.paths, path)
	}
	return w
}

// look calls look, and has it called again later if it asks for that.
func (w *watch) look(look func() (again bool)) {
	w.follow()
	w.seen = glance(w.paths)
	if !look() {
		w.retry = w.o.Settle
		return
	}
	w.settle.Reset(w.retry)
	w.retry = max(min(2*w.retry, maxRetry), w.o.Settle)
}

// stir puts off the next look until the files have been quiet for a while.
func (w *watch) stir() {
	w.retry = w.o.Settle
	now := time.Now()
	if w.until.IsZero() {
		w.until = now.Add(maxSettles * w.o.Settle)
	}
	w.settle.Reset(min(w.o.Settle, max(w.until.Sub(now), 0)))
}

// concerns reports whether e may have changed what is read. A file that was unreadable
// may be readable after a change of its mode; reading changes nothing else's.
func (w *watch) concerns(e fsnotify.Event) bool {
	dir := filepath.Dir(e.Name)
	if e.Op == fsnotify.Chmod {
		return slices.Contains(w.paths, e.Name) || slices.Contains(w.paths, dir)
	}
	return w.names[e.Name] || slices.Contains(w.paths, dir)
}

// follow watches the directories that now matter: those of each hop. A directory of the
// same name may be another one than before, and a watch follows the directory, not the
// name; so each is added again.
func (w *watch) follow() {
	if w.notify == nil {
		return
	}
	w.names = make(map[string]bool)
	var want []string
	for _, path := range w.paths {
		add := func(path string) {
			for _, name := range hops(path) {
				w.names[name] = true
				want = append(want, filepath.Dir(name))
			}
		}
		add(path)
		if entries, err := os.ReadDir(path); err == nil { // a directory
			want = append(want, path)
			for _, e := range entries {
				if e.Type()&os.ModeSymlink != 0 {
					add(filepath.Join(path, e.Name()))
				}
			}
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	for _, d := range w.dirs {
		_ = w.notify.Remove(d) // it may be gone already
	}
	w.dirs = w.dirs[:0]
	for _, d := range want {
		if err := w.notify.Add(d); err != nil {
			if w.deafTo != d {
				w.deafTo = d
				w.o.Log.Warn("a directory is polled only", "path", d, "poll", w.o.Poll, "error", err)
			}
			continue
		}
		w.dirs = append(w.dirs, d)
	}
}
