// SPDX-License-Identifier: Apache-2.0

// Package table keeps the keys that a host owns, and goes over those of one report.
//
//	text ─ hash ─▶ shard, under a lock ─▶ map, of one algorithm ─▶ key
//
// A report of many keys is taken shard by shard, and Visit shows its Visitor where keys
// most likely are before it takes the first, so that the memory behind many can be
// read at once. The package knows nothing of what a key is.
package table

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Key is what a Table keeps; the zero Key is none.
type Key interface {
	comparable

	// Text is what the key is called. It does not change.
	Text() string
}

const (
	shardBits = 6

	// shardCount is into how many parts keys are divided.
	shardCount = 1 << shardBits
)

// Table is keys by their text and algorithm. It is safe for concurrent use, as far
// as Shards are locked.
type Table[K Key] struct {
	seed   maphash.Seed
	shards [shardCount]Shard[K]
}

// New returns an empty Table.
func New[K Key]() *Table[K] {
	t := &Table[K]{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].now = math.MinInt64
	}
	return t
}

// Hash is by which text is found.
func (t *Table[K]) Hash(text string) uint64 { return maphash.String(t.seed, text) }

// Shard is where a key with hash is.
func (t *Table[K]) Shard(hash uint64) *Shard[K] { return &t.shards[shardOf(hash)] }

// All yields all shards.
func (t *Table[K]) All(yield func(*Shard[K]) bool) {
	for i := range t.shards {
		if !yield(&t.shards[i]) {
			return
		}
	}
}

// shardOf is where a key with hash is. Maps use the lower bits.
func shardOf(hash uint64) uint64 { return hash >> (64 - shardBits) }

// Shard is a part of the keys, so that reports rarely wait for each other.
type Shard[K Key] struct {
	mu   sync.Mutex    // protects following fields, all in the maps, and their keys
	now  time.Duration // the latest time of all that had the lock
	maps []*Map[K]     // a map per algorithm; they stay for ever

	_ [24]byte // a shard per cache line
}

// Lock locks sh for what happens at now. It returns now, or the time of what had
// the lock before if that is later: for a key, time does not go backwards.
func (sh *Shard[K]) Lock(now time.Duration) time.Duration {
	sh.mu.Lock()
	sh.now = max(sh.now, now)
	return sh.now
}

// Unlock ends Lock.
func (sh *Shard[K]) Unlock() { sh.mu.Unlock() }

// Map is the map of an algorithm in sh, which is locked. It begins if there is none.
func (sh *Shard[K]) Map(algorithm string) *Map[K] {
	for _, b := range sh.maps {
		if b.algorithm == algorithm {
			return b
		}
	}
	b := &Map[K]{algorithm: strings.Clone(algorithm)}
	b.resize(smallestBook)
	sh.maps = append(sh.maps, b)
	return b
}

// Maps yields the maps of sh, which is locked.
func (sh *Shard[K]) Maps(yield func(*Map[K]) bool) {
	for _, b := range sh.maps {
		if !yield(b) {
			return
		}
	}
}

// Entry is a key and where it is.
type Entry[K Key] struct {
	Hash      uint64
	Key       K
	Algorithm string
}

// Entries are all keys of sh at this time, which may be gone when it is locked again.
func (sh *Shard[K]) Entries() (all []Entry[K]) {
	var zero K
	sh.mu.Lock()
	defer sh.mu.Unlock()

	for _, b := range sh.maps {
		all = slices.Grow(all, b.live)
		for _, s := range b.slots {
			if s.key != zero {
				all = append(all, Entry[K]{s.hash, s.key, b.algorithm})
			}
		}
	}
	return all
}
