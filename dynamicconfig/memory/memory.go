// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"errors"
	"sync"

	"github.com/headgate/headgate/dynamicconfig"
)

var _ dynamicconfig.Source = (*Source)(nil)

var errNil = errors.New("memory: no snapshot is set: call Set with one")

// Source holds one snapshot. Safe for concurrent use. Several Nodes of one process may share it.
// Make it with New.
type Source struct {
	mu      sync.Mutex // guards what follows
	current *dynamicconfig.Snapshot
	changed chan struct{} // closed by the next Set
}

// New makes a Source that has s. With a nil s, Load is an error until Set.
func New(s *dynamicconfig.Snapshot) *Source {
	return &Source{current: s, changed: make(chan struct{})}
}

// Set replaces the snapshot. It never blocks: watchers that are busy get
// the newest one when they are done, and miss those between. A nil s is
// reported to them as an error.
func (m *Source) Set(s *dynamicconfig.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = s
	close(m.changed)
	m.changed = make(chan struct{})
}

// Load implements dynamicconfig.Source.
func (m *Source) Load(ctx context.Context) (*dynamicconfig.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil {
		return nil, errNil
	}
	return m.current, nil
}

// Watch implements dynamicconfig.Source. It begins with the present configuration, whatever was
// loaded: another user may have loaded it.
func (m *Source) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	var last *dynamicconfig.Snapshot
	for told := false; ctx.Err() == nil; {
		m.mu.Lock()
		current, changed := m.current, m.changed
		m.mu.Unlock()
		if current != last || !told {
			last, told = current, true
			if current == nil {
				update(nil, errNil)
			} else {
				update(current, nil)
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return nil
}
