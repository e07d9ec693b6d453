// SPDX-License-Identifier: Apache-2.0

// Package hosts gives every host name a small number, so that a row holds four bytes of it and not
// a string. It knows nothing of keys and messages. One lock guards the names and the numbers.
package hosts

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// Numbers are the hosts that have rows. A number is given anew when no row has it.
// Use New. Numbers are safe for concurrent use.
type Numbers struct {
	// Gone counts that a row of host is gone. It is a field because a method value
	// costs an allocation each time. It does not change.
	Gone func(host uint32)

	mu    sync.RWMutex // protects following fields, up to the blank line
	ids   map[string]uint32
	names []string // by id; empty when free
	rows  []int64  // by id: rows that have it, and updates under way
	free  []uint32

	labels atomic.Pointer[map[string]algorithm.Labels] // by host; nil before the first Label
}

// None is the number of no host.
const None = math.MaxUint32

// New returns Numbers of no hosts.
func New() *Numbers {
	n := new(Numbers)
	n.Gone = func(host uint32) { n.Add(host, -1) }
	return n
}

// Label puts the labels of hosts in force, by their names.
func (n *Numbers) Label(labels map[string]algorithm.Labels) { n.labels.Store(&labels) }

// Acquire returns the number of name and keeps it from being given anew until
// Add(id, -1).
func (n *Numbers) Acquire(name string) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()

	id, ok := n.ids[name]
	if !ok {
		name = strings.Clone(name)
		if free := len(n.free); free > 0 {
			id, n.free = n.free[free-1], n.free[:free-1]
			n.names[id] = name
		} else {
			id = uint32(len(n.names))
			n.names, n.rows = append(n.names, name), append(n.rows, 0)
		}
		if n.ids == nil {
			n.ids = make(map[string]uint32)
		}
		n.ids[name] = id
	}
	n.rows[id]++
	return id
}

// Add adds rows to the number of rows that have id. When no row has id, Acquire may give
// it to another host. Add ignores an id that no host has: an account with a defect may
// report a host as gone that it does not have.
func (n *Numbers) Add(id uint32, rows int64) {
	n.mu.Lock()
	defer n.mu.Unlock()

	if int(id) >= len(n.rows) || n.rows[id] == 0 {
		return
	}
	n.rows[id] += rows
	if n.rows[id] == 0 {
		delete(n.ids, n.names[id])
		n.names[id] = ""
		n.free = append(n.free, id)
	}
}

// Member returns the name and the labels of host.
func (n *Numbers) Member(host uint32) account.Member {
	m := account.Member{Name: n.Name(host)}
	if labels := n.labels.Load(); labels != nil {
		m.Labels = (*labels)[m.Name]
	}
	return m
}

// Name is the host that has the number id; empty if no host has it.
func (n *Numbers) Name(id uint32) string {
	n.mu.RLock()
	defer n.mu.RUnlock()

	if int(id) >= len(n.names) {
		return ""
	}
	return n.names[id]
}

// Len is how many hosts have rows.
func (n *Numbers) Len() int {
	n.mu.RLock()
	defer n.mu.RUnlock()

	return len(n.ids)
}

// All yields the name of each number, which is empty while no host has it, and how many
// rows have it.
func (n *Numbers) All(yield func(name string, rows int64) bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()

	for id, name := range n.names {
		if !yield(name, n.rows[id]) {
			return
		}
	}
}
