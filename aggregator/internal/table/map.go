// SPDX-License-Identifier: Apache-2.0

package table

// Map is the keys of one algorithm in one shard, by the hash of their text:
// open addressing with linear probing. A key that migrates is in two maps.
//
// It is a table of its own because of how it is read: Look finds where keys
// lie without touching them, so that a report can have the memory behind many
// keys fetched at once, and not one after another.
type Map[K Key] struct {
	algorithm string
	slots     []slot[K] // a power of two
	live      int
}

type slot[K Key] struct {
	hash uint64
	key  K // none: empty
}

const smallestBook = 8

// Algorithm is that of the keys in b.
func (b *Map[K]) Algorithm() string { return b.algorithm }

// Look is the key that hash most likely belongs to, or none if there is none
// for sure.
func (b *Map[K]) Look(hash uint64) K {
	var zero K
	mask := uint64(len(b.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		if s := &b.slots[at]; s.hash == hash || s.key == zero {
			return s.key
		}
	}
}

// Find is the key called text, or none.
func (b *Map[K]) Find(hash uint64, text string) K {
	var zero K
	mask := uint64(len(b.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		s := &b.slots[at]
		if s.key == zero || s.hash == hash && s.key.Text() == text {
			return s.key
		}
	}
}

// Add puts k in, which is not there.
func (b *Map[K]) Add(hash uint64, k K) {
	if (b.live+1)*4 > len(b.slots)*3 {
		b.resize(len(b.slots) * 2)
	}
	b.put(slot[K]{hash, k})
	b.live++
}

func (b *Map[K]) put(s slot[K]) {
	var zero K
	mask := uint64(len(b.slots) - 1)
	at := s.hash & mask
	for b.slots[at].key != zero {
		at = (at + 1) & mask
	}
	b.slots[at] = s
}

// Remove takes k out, and moves those that it was in the way of.
func (b *Map[K]) Remove(hash uint64, k K) {
	var zero K
	mask := uint64(len(b.slots) - 1)
	at := hash & mask
	for b.slots[at].key != k {
		at = (at + 1) & mask
	}
	for next := (at + 1) & mask; b.slots[next].key != zero; next = (next + 1) & mask {
		home := b.slots[next].hash & mask
		if (next-home)&mask >= (next-at)&mask {
			b.slots[at] = b.slots[next]
			at = next
		}
	}
	b.slots[at] = slot[K]{}
	if b.live--; b.live*8 < len(b.slots) && len(b.slots) > smallestBook {
		b.resize(len(b.slots) / 2)
	}
}

func (b *Map[K]) resize(n int) {
	var zero K
	old := b.slots
	b.slots = make([]slot[K], max(n, smallestBook))
	for _, s := range old {
		if s.key != zero {
			b.put(s)
		}
	}
}
