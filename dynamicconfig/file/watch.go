// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/headgate/headgate/dynamicconfig"
)

// maxSettles bounds how many settle periods a file that never stays quiet
// can put off its reading.
const maxSettles = 20

// Watch implements dynamicconfig.Source. When the system gives no
// notifications (its watches may be used up), it polls.
func (s *Source) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	s.mu.Lock()
	w := &watch{source: s, update: update, reported: s.loaded}
	s.mu.Unlock()
	w.settle = time.NewTimer(s.settle) // a change since Load is one too
	defer w.settle.Stop()
	w.until = time.Now().Add(maxSettles * s.settle)

	var events chan fsnotify.Event // nil never receives
	var lost chan error
	if !s.deaf {
		notify, err := fsnotify.NewWatcher()
		if err != nil {
			s.logger.Warn("config file is polled only", "path", s.path, "poll", s.poll, "error", err)
		} else {
			defer notify.Close()
			w.notify, events, lost = notify, notify.Events, notify.Errors
		}
	}
	w.follow()
	poll := time.NewTicker(s.poll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			if !ok {
				events = nil
			} else if w.concerns(e) {
				w.stir()
			}
		case _, ok := <-lost: // events were dropped, or a watch failed
			if !ok {
				lost = nil
			}
			w.stir()
		case <-poll.C:
			w.follow()
			w.look()
		case <-w.settle.C:
			w.until = time.Time{}
			w.follow()
			w.look()
		}
	}
}

// watch is one call of Watch; one goroutine uses it.
type watch struct {
	source *Source
	update func(*dynamicconfig.Snapshot, error)
	notify *fsnotify.Watcher // nil: poll only

	reported state       // what update was last told
	suspect  state       // a broken reading that waits for a second one
	settle   *time.Timer // fires when the file has been quiet
	until    time.Time   // by then it is read in any case; zero when at rest
	dirs     []string    // watched now, sorted
	deafTo   string      // the directory whose watch was last warned about
}

// stir puts off reading until the file has been quiet for a while.
func (w *watch) stir() {
	now := time.Now()
	if w.until.IsZero() {
		w.until = now.Add(maxSettles * w.source.settle)
	}
	w.settle.Reset(min(w.source.settle, max(w.until.Sub(now), 0)))
}

// concerns reports whether e may have changed the file. In its own directory
// any event may, when a symlink there leads to it; elsewhere (the directory
// above, or the one that a symlink leads to) only some names do.
func (w *watch) concerns(e fsnotify.Event) bool {
	path := w.source.path
	if e.Op == fsnotify.Chmod {
		// A file that was unreadable may be readable now.
		return e.Name == path
	}
	dir := filepath.Dir(path)
	if e.Name == path || e.Name == dir {
		return true
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || real != path {
		return e.Name == real || filepath.Dir(e.Name) == dir || slices.Contains(w.dirs, e.Name)
	}
	return false
}

// follow watches the directories that now matter: the file's, the one above
// it (to see the directory itself replaced) and the one that symlinks lead
// to. A directory of the same name may be another one than before, and a
// watch follows the directory, not the name; so each is added again.
func (w *watch) follow() {
	if w.notify == nil {
		return
	}
	dir := filepath.Dir(w.source.path)
	want := []string{dir, filepath.Dir(dir)}
	if real, err := filepath.EvalSymlinks(w.source.path); err == nil {
		want = append(want, filepath.Dir(real))
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
				w.source.logger.Warn("config directory is polled only", "path", d, "poll", w.source.poll, "error", err)
			}
			continue
		}
		w.dirs = append(w.dirs, d)
	}
}

// look reads the file and reports what is new. What is broken or gone is
// read a second time before it is reported: it may be half-way to something
// better.
func (w *watch) look() {
	snapshot, now, err := w.source.read()
	if now == w.reported {
		w.suspect = state{}
		return
	}
	if err != nil && now != w.suspect {
		w.suspect = now
		w.stir()
		return
	}
	w.suspect = state{}
	w.reported = now
	w.update(snapshot, err)
}
