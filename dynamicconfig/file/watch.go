// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/filewatch"
)

// Watch implements dynamicconfig.Source. When the system gives no
// notifications (its watches may be used up), it polls.
func (s *Source) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	s.mu.Lock()
	l := &looking{source: s, update: update, reported: s.loaded}
	s.mu.Unlock()
	filewatch.Files(ctx, []string{s.path}, s.options, l.look)
	return nil
}

// looking is one call of Watch; one goroutine uses it.
type looking struct {
	source *Source
	update func(*dynamicconfig.Snapshot, error)

	reported state // what update was last called with
	suspect  state // a broken reading that waits for a second one
}

// look reads the file and reports what is new. It returns true to be called again soon.
// What is broken or gone is read a second time before it is reported: it may be half-way
// to something better. What is being written is not read. What cannot be read is tried
// again, also after it was reported: no notification says that a disk or a folder is back.
func (l *looking) look() (again bool) {
	snapshot, now, err := l.source.read()
	switch {
	case errors.Is(err, filewatch.ErrWriting):
		return true
	case now == l.reported:
		l.suspect = state{}
		return now.err != ""
	case err != nil && now != l.suspect:
		l.suspect = now
		return true
	}
	l.suspect = state{}
	l.reported = now
	l.update(snapshot, err)
	return now.err != ""
}
