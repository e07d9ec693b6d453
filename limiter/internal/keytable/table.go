// SPDX-License-Identifier: Apache-2.0

package keytable

import "hash/maphash"

// shardBits is how many upper bits of a hash choose the shard.
const shardBits = 4

// Table maps keys to values. New makes one. All methods are safe for
// concurrent use.
type Table[V any] struct {
	seed   maphash.Seed
	shards [1 << shardBits]shard[V]
}

// New returns an empty Table.
func New[V any]() *Table[V] {
	t := &Table[V]{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].init()
	}
	return t
}

// Get returns key's value, or nil. It takes no lock.
func (t *Table[V]) Get(key string) *V {
	s, h := t.find(key)
	return s.get(h, key)
}

// find returns the shard that key is in, and key's hash.
func (t *Table[V]) find(key string) (*shard[V], uint64) {
	h := maphash.String(t.seed, key) | leastHash
	return &t.shards[h>>(64-shardBits)], h
}

// Lock locks the part of the table that key is in, until the Part is unlocked.
// Other keys are in that part too: a goroutine must not lock two Parts.
func (t *Table[V]) Lock(key string) Part[V] {
	s, h := t.find(key)
	s.mu.Lock()
	return Part[V]{s, h, key}
}

// Barrier waits until every Part that is locked now is unlocked. Their
// holders' writes are visible to the caller.
func (t *Table[V]) Barrier() {
	for i := range t.shards {
		t.shards[i].mu.Lock()
		t.shards[i].mu.Unlock() //nolint:staticcheck // there is nothing to do in between
	}
}

// Part is the locked part of a Table that one key is in. It is for the
// goroutine that locked it, until Unlock.
type Part[V any] struct {
	shard *shard[V]
	hash  uint64
	key   string
}

// Get returns the key's value, or nil.
func (p Part[V]) Get() *V { return p.shard.get(p.hash, p.key) }

// Put sets the key's value, which is not nil. The table keeps the key's
// string: clone it before Lock if it is a piece of a larger one.
func (p Part[V]) Put(v *V) { p.shard.putLocked(p.hash, p.key, v) }

// Delete removes the key, if it is there.
func (p Part[V]) Delete() { p.shard.deleteLocked(p.hash, p.key) }

// Unlock unlocks the part. Nothing may be called after it.
func (p Part[V]) Unlock() { p.shard.mu.Unlock() }
