// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// table maps keys to their Keyed. Reading takes no lock and writes nothing,
// also while the table grows; writers lock one of its parts.
//
// Each part is an open-addressing hash table with linear probing. A slot is
// written value first, then hash, so a reader that sees the hash sees the
// value; it compares the whole key before it believes either.
type table struct {
	seed  maphash.Seed
	parts [1 << partBits]part
}

const (
	partBits = 4
	smallest = 16 // slots of an empty part

	// Hashes that mean something else; real ones have an upper bit set.
	slotEmpty   = 0
	slotDeleted = 1
)

type part struct {
	slots atomic.Pointer[[]slot]

	mu   sync.Mutex // protects writes to slots and the following fields
	used int        // slots that are not empty, deleted ones included
	live int        // slots that hold a Keyed

	_ [24]byte // a part per cache line
}

type slot struct {
	hash  atomic.Uint64
	value atomic.Pointer[Keyed]
}

func (t *table) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.parts {
		s := make([]slot, smallest)
		t.parts[i].slots.Store(&s)
	}
}

func (t *table) hash(key string) uint64 { return maphash.String(t.seed, key) | 1<<32 }

func (t *table) part(hash uint64) *part { return &t.parts[hash>>(64-partBits)] }

// get returns key's Keyed, or nil.
func (t *table) get(key string) *Keyed {
	h := t.hash(key)
	return t.part(h).get(h, key)
}

func (p *part) get(h uint64, key string) *Keyed {
	slots := *p.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch slots[i].hash.Load() {
		case h:
			if k := slots[i].value.Load(); k != nil && k.key == key {
				return k
			}
		case slotEmpty:
			return nil
		}
	}
}

// putLocked adds k, whose key is not there yet.
func (p *part) putLocked(t *table, h uint64, k *Keyed) {
	slots := *p.slots.Load()
	if (p.used+1)*4 > len(slots)*3 {
		slots = p.growLocked(t)
	}
	p.fillLocked(slots, h, k)
}

func (p *part) fillLocked(slots []slot, h uint64, k *Keyed) {
	mask := uint64(len(slots) - 1)
	i := h & mask
	for slots[i].hash.Load() != slotEmpty {
		i = (i + 1) & mask
	}
	slots[i].value.Store(k)
	slots[i].hash.Store(h)
	p.used++
	p.live++
}

// growLocked makes room for as many again as live, and drops deleted slots.
func (p *part) growLocked(t *table) []slot {
	size := smallest
	for size < p.live*2+2 {
		size *= 2
	}
	old, grown := *p.slots.Load(), make([]slot, size)
	p.used, p.live = 0, 0
	for i := range old {
		if k := old[i].value.Load(); k != nil {
			p.fillLocked(grown, old[i].hash.Load(), k)
		}
	}
	p.slots.Store(&grown)
	return grown
}

// deleteLocked removes k if it is there.
func (p *part) deleteLocked(t *table, h uint64, k *Keyed) {
	slots := *p.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := h & mask; slots[i].hash.Load() != slotEmpty; i = (i + 1) & mask {
		if slots[i].value.Load() == k {
			slots[i].hash.Store(slotDeleted)
			slots[i].value.Store(nil)
			p.live--
			if p.live*8 < len(slots) && len(slots) > smallest {
				p.growLocked(t)
			}
			return
		}
	}
}
