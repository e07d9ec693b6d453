// SPDX-License-Identifier: Apache-2.0

package table

import (
	"slices"
	"time"
)

// Visitor is what a report does with its keys.
type Visitor interface {
	// Rows takes rows of the report, whose keys have these hashes and are in one shard.
	// Its lock is held, and none of them has seen a time after now.
	Rows(now time.Duration, rows []int32, hashes []uint64)

	// Unlocked comes after Rows, when no lock is held.
	Unlocked()
}

const (
	// Few is up to how many keys are taken as they come. More are taken
	// shard by shard: a lock that goes back and forth between processors
	// costs more than the key behind it.
	Few = 64

	// AtOnce is how many keys are taken under one lock, at most: others of
	// the shard wait for so many.
	AtOnce = 32
)

// Order is the memory of Visit, which callers keep.
type Order struct {
	byRow  []uint64 // hashes
	rows   []int32  // those of one shard after those of another
	hashes []uint64 // of rows, beside them
	ends   [Shards + 1]int32
}

// Visit has v take all keys called texts at now or later. Reports that come at once do
// well to begin with different shards.
func (t *Table[K]) Visit(now time.Duration, texts []string, begin uint32, o *Order, v Visitor) {
	if len(texts) <= Few {
		o.rows, o.hashes = sized(o.rows, 1), sized(o.hashes, 1)
		for i, text := range texts {
			o.rows[0], o.hashes[0] = int32(i), t.Hash(text)
			now = t.Shard(o.hashes[0]).take(now, o.rows, o.hashes, v)
		}
		return
	}
	t.sort(o, texts)
	for n := range uint32(Shards) {
		s := (begin + n) % Shards
		for from, last := o.ends[s], o.ends[s+1]; from < last; from += AtOnce {
			end := min(from+AtOnce, last)
			now = t.shards[s].take(now, o.rows[from:end], o.hashes[from:end], v)
		}
	}
}

// take has v take rows of sh, whose keys have these hashes, at now or later.
func (sh *Shard[K]) take(now time.Duration, rows []int32, hashes []uint64, v Visitor) time.Duration {
	now = sh.visit(now, rows, hashes, v)
	v.Unlocked()
	return now
}

func (sh *Shard[K]) visit(now time.Duration, rows []int32, hashes []uint64, v Visitor) time.Duration {
	now = sh.Lock(now)
	defer sh.Unlock() // a Visitor may end its goroutine

	v.Rows(now, rows, hashes)
	return now
}

// sort counts, and puts every row where the count says.
func (t *Table[K]) sort(o *Order, texts []string) {
	n := len(texts)
	o.byRow, o.rows, o.hashes = sized(o.byRow, n), sized(o.rows, n), sized(o.hashes, n)
	var next [Shards + 1]int32
	for i, text := range texts {
		o.byRow[i] = t.Hash(text)
		next[shardOf(o.byRow[i])+1]++
	}
	for s := range Shards {
		next[s+1] += next[s]
	}
	o.ends = next
	for i, hash := range o.byRow {
		s := shardOf(hash)
		o.rows[next[s]], o.hashes[next[s]] = int32(i), hash
		next[s]++
	}
}

func sized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
