// SPDX-License-Identifier: Apache-2.0

package keytable

import (
	"sync"
	"sync/atomic"
)

const (
	minSlots = 16 // of a shard, a power of two

	// Hashes of slots without a key. All other hashes are at least leastHash.
	empty     = 0
	deleted   = 1
	leastHash = 1 << 32
)

// shard is an open-addressing hash table with linear probing.
//
// A slot's value and key are written before its hash, so a reader that sees the
// hash sees them. A slot never gets another key, so a reader may compare the
// key at any time. A deleted slot keeps its key's string until the shard is
// rebuilt, which happens when more keys are deleted than live.
type shard[V any] struct {
	slots atomic.Pointer[[]slot[V]] // a power of two; at least one is empty

	mu   sync.Mutex // protects writes to slots and the following fields
	used int        // slots that are not empty, deleted ones included
	live int        // slots with a value
}

type slot[V any] struct {
	hash  atomic.Uint64
	value atomic.Pointer[V]
	key   string // written once, before hash
}

func (s *shard[V]) init() {
	slots := make([]slot[V], minSlots)
	s.slots.Store(&slots)
}

// get returns the value of key, whose hash is h, or nil. It repeats findLocked's
// loop because a call would make For and Allow of a Group 5% slower.
func (s *shard[V]) get(h uint64, key string) *V {
	slots := *s.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch slots[i].hash.Load() {
		case h:
			if slots[i].key == key {
				return slots[i].value.Load() // nil if the key was deleted meanwhile
			}
		case empty:
			return nil
		}
	}
}

// findLocked returns the slot of key, or nil.
func (s *shard[V]) findLocked(h uint64, key string) *slot[V] {
	slots := *s.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch slots[i].hash.Load() {
		case h:
			if slots[i].key == key {
				return &slots[i]
			}
		case empty:
			return nil
		}
	}
}

func (s *shard[V]) putLocked(h uint64, key string, v *V) {
	if old := s.findLocked(h, key); old != nil {
		old.value.Store(v)
		return
	}
	if (s.used+1)*4 > len(*s.slots.Load())*3 {
		s.rebuildLocked()
	}
	s.addLocked(*s.slots.Load(), h, key, v)
}

// addLocked adds a key that is not in slots to an empty slot.
func (s *shard[V]) addLocked(slots []slot[V], h uint64, key string, v *V) {
	mask := uint64(len(slots) - 1)
	i := h & mask
	for slots[i].hash.Load() != empty {
		i = (i + 1) & mask
	}
	slots[i].value.Store(v)
	slots[i].key = key
	slots[i].hash.Store(h)
	s.used++
	s.live++
}

func (s *shard[V]) deleteLocked(h uint64, key string) {
	old := s.findLocked(h, key)
	if old == nil {
		return
	}
	old.hash.Store(deleted)
	old.value.Store(nil)
	s.live--
	if s.used > 2*s.live && s.used > minSlots/2 {
		s.rebuildLocked()
	}
}

// rebuildLocked makes room for twice the live keys, and drops the deleted ones.
func (s *shard[V]) rebuildLocked() {
	size := minSlots
	for size < s.live*2+2 {
		size *= 2
	}
	old, rebuilt := *s.slots.Load(), make([]slot[V], size)
	s.used, s.live = 0, 0
	for i := range old {
		if v := old[i].value.Load(); v != nil {
			s.addLocked(rebuilt, old[i].hash.Load(), old[i].key, v)
		}
	}
	s.slots.Store(&rebuilt)
}
