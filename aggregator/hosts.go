// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// hosts gives every host name a small number, so that a row holds four bytes
// of it and not a string. A number is given anew when no row has it.
type hosts struct {
	mu    sync.RWMutex // protects following fields, up to the blank line
	ids   map[string]uint32
	names []string // by id; empty when free
	rows  []int64  // by id: rows that have it, and updates under way
	free  []uint32

	labels atomic.Pointer[map[string]algorithm.Labels] // by host; nil before the first Label
	gone   func(host uint32)                           // forget; made once, as it costs an allocation
}

// noHost is the number of no host.
const noHost = math.MaxUint32

// acquire returns the number of name and keeps it from being given anew until
// add(id, -1).
func (h *hosts) acquire(name string) uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()

	id, ok := h.ids[name]
	if !ok {
		name = strings.Clone(name)
		if n := len(h.free); n > 0 {
			id, h.free = h.free[n-1], h.free[:n-1]
			h.names[id] = name
		} else {
			id = uint32(len(h.names))
			h.names, h.rows = append(h.names, name), append(h.rows, 0)
		}
		if h.ids == nil {
			h.ids = make(map[string]uint32)
		}
		h.ids[name] = id
	}
	h.rows[id]++
	return id
}

// add changes how many rows have id. The number is free again at none. Ids
// come back through algorithms of a service's own: a number that is not in use
// changes nothing.
func (h *hosts) add(id uint32, rows int64) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if int(id) >= len(h.rows) || h.rows[id] == 0 {
		return
	}
	h.rows[id] += rows
	if h.rows[id] == 0 {
		delete(h.ids, h.names[id])
		h.names[id] = ""
		h.free = append(h.free, id)
	}
}

// forget is called when a row of host is gone.
func (h *hosts) forget(host uint32) { h.add(host, -1) }

// member is who host is.
func (h *hosts) member(host uint32) account.Member {
	m := account.Member{Name: h.name(host)}
	if labels := h.labels.Load(); labels != nil {
		m.Labels = (*labels)[m.Name]
	}
	return m
}

// name is whose number id is; empty if it is nobody's.
func (h *hosts) name(id uint32) string {
	h.mu.RLock()
	defer h.mu.RUnlock()

	if int(id) >= len(h.names) {
		return ""
	}
	return h.names[id]
}

// len is how many hosts have rows.
func (h *hosts) len() int {
	h.mu.RLock()
	defer h.mu.RUnlock()

	return len(h.ids)
}
