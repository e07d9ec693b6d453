// SPDX-License-Identifier: Apache-2.0

// Package sources has the two things that a Node is given by its service: limits from the
// service's own store, and hosts from its own discovery.
package sources

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

// Limits is a dynamicconfig.Source that reads YAML from a store.
type Limits struct {
	Read  func(context.Context) ([]byte, error)
	Every time.Duration // how long Watch waits before it reads again

	mu    sync.Mutex
	known string // the version that was read last, or the error
}

// Load reads the store.
func (l *Limits) Load(ctx context.Context) (*dynamicconfig.Snapshot, error) {
	snapshot, err := l.read(ctx)
	if err == nil {
		l.isNew(snapshot.Version())
	}
	return snapshot, err
}

// Watch calls update for each change since the last Load.
func (l *Limits) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	for ctx.Err() == nil {
		snapshot, err := l.read(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && l.isNew(err.Error()):
			update(nil, err) // the limits in force stay in force
		case err == nil && l.isNew(snapshot.Version()):
			update(snapshot, nil)
		}
		pause(ctx, l.Every)
	}
	return nil
}

func (l *Limits) read(ctx context.Context) (*dynamicconfig.Snapshot, error) {
	text, err := l.Read(ctx)
	if err != nil {
		return nil, err
	}
	return dynamicconfig.Parse("limits of our store", text)
}

// isNew remembers what was read, and reports whether it differs from what was read before.
func (l *Limits) isNew(read string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.known != read
	l.known = read
	return changed
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
