// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/headgate/headgate/ringpop"
)

// Members is a list of hosts that the service sets. It is safe for
// concurrent use. The zero Members has no hosts yet.
type Members struct {
	mu    sync.Mutex // protects the following
	hosts []ringpop.Host
	// next is closed when hosts is overtaken; nil while no caller waits.
	next chan struct{}
}

var _ ringpop.Members = (*Members)(nil)

// New returns a list that begins with hosts. Its errors are those of Set.
func New(hosts ...ringpop.Host) (*Members, error) {
	m := &Members{}
	if err := m.Set(hosts); err != nil {
		return nil, err
	}
	return m, nil
}

// Set replaces the whole list, and returns without waiting for those who
// watch. It keeps no reference to hosts. Its errors are those of
// ringpop.ValidateMembers; the list stays as it was then.
func (m *Members) Set(hosts []ringpop.Host) error {
	if err := ringpop.ValidateMembers(hosts); err != nil {
		return fmt.Errorf("hosted members: %w", err)
	}
	hosts = slices.Clone(hosts)

	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Equal(m.hosts, hosts) {
		return nil
	}
	m.hosts = hosts
	if m.next != nil {
		close(m.next)
		m.next = nil
	}
	return nil
}

// Watch calls update with the list at once, and after each Set that changed
// it, until ctx ends. When update is slower than Set, it gets the newest
// list, not each of them.
func (m *Members) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	for ctx.Err() == nil {
		hosts, overtaken := m.current()
		update(hosts)
		select {
		case <-overtaken:
		case <-ctx.Done():
		}
	}
	return nil
}

// current returns a copy of the list, and what closes when it is overtaken.
func (m *Members) current() ([]ringpop.Host, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next == nil {
		m.next = make(chan struct{})
	}
	return slices.Clone(m.hosts), m.next
}
