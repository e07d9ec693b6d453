// SPDX-License-Identifier: Apache-2.0

package table

import (
	"slices"
	"time"
)

// Visitor is what a report does with its keys.
type Visitor[K Key] interface {
	// Rows takes rows of the report, whose keys have these hashes. The locks of all
	// of them are held, and none of them has seen a time after now. Likely are guesses
	// at the keys, in the order of rows: they may be others of the same hash, and none
	// says nothing.
	Rows(now time.Duration, rows []int32, hashes []uint64, likely []K)

	// Unlocked comes after Rows, when no lock is held.
	Unlocked()
}

const (
	// Few is up to how many keys are taken as they come. More are taken
	// shard by shard: a lock that goes back and forth between processors
	// costs more than the key behind it.
	Few = 64

	// AtOnce is how many keys are taken under one lock, at most: others of
	// the shard wait for so many. It is also how many keys' memory is read
	// at once.
	AtOnce = 32
)

// Order is the memory of Visit, which callers keep.
type Order[K Key] struct {
	byRow  []uint64 // hashes
	rows   []int32  // those of one shard after those of another
	hashes []uint64 // of rows, beside them
	ends   [shardCount + 1]int32
	likely [AtOnce]K
}

// Visit has v take all keys called texts, of an algorithm, at now or later. Reports that
// come at once do well to begin with different shards.
func (t *Table[K]) Visit(now time.Duration, algorithm string, texts []string, begin uint32, o *Order[K], v Visitor[K]) {
	defer clear(o.likely[:])
	if len(texts) <= Few {
		o.rows, o.hashes = sized(o.rows, 1), sized(o.hashes, 1)
		for i, text := range texts {
			o.rows[0], o.hashes[0] = int32(i), t.Hash(text)
			now = t.one(now, o, v)
			v.Unlocked()
		}
		return
	}
	o.sort(t, texts)
	begin %= shardCount
	now = t.through(now, algorithm, o, begin, shardCount, v)
	t.through(now, algorithm, o, 0, begin, v)
}

// one takes the one row of o, whose key is in any shard.
func (t *Table[K]) one(now time.Duration, o *Order[K], v Visitor[K]) time.Duration {
	sh := t.Shard(o.hashes[0])
	now = sh.Lock(now)
	defer sh.Unlock() // a Visitor may end its goroutine

	v.Rows(now, o.rows, o.hashes, o.likely[:1])
	return now
}

// through takes the rows of the shards from first up to end: of several at once where
// they have few.
func (t *Table[K]) through(now time.Duration, algorithm string, o *Order[K], first, end uint32, v Visitor[K]) time.Duration {
	for first < end {
		next := first + 1
		for next < end && o.ends[next+1]-o.ends[first] <= AtOnce {
			next++
		}
		for from, last := o.ends[first], o.ends[next]; from < last; from += AtOnce {
			now = t.under(now, algorithm, o, first, next, from, min(from+AtOnce, last), v)
			v.Unlocked()
		}
		first = next
	}
	return now
}

// under takes the rows of o from number from up to end, all of whose keys are in the
// shards from first up to next.
func (t *Table[K]) under(now time.Duration, algorithm string, o *Order[K], first, next uint32, from, end int32, v Visitor[K]) time.Duration {
	shards, ends := t.shards[first:next], o.ends[first:next+1]
	now = lock(now, shards, ends)
	defer unlock(now, shards, ends)

	rows, hashes, likely := o.rows[from:end], o.hashes[from:end], o.likely[:end-from]
	look(algorithm, shards, ends, from, hashes, likely)
	v.Rows(now, rows, hashes, likely)
	return now
}

// lock locks those of shards that have rows, which end at ends[1:]. Who locks several does so
// in their order.
func lock[K Key](now time.Duration, shards []Shard[K], ends []int32) time.Duration {
	begin := ends[0]
	for s, end := range ends[1:] {
		if begin < end {
			now = shards[s].Lock(now)
		}
		begin = end
	}
	return now
}

// unlock ends lock. Now is the latest time of all of shards.
func unlock[K Key](now time.Duration, shards []Shard[K], ends []int32) {
	begin := ends[0]
	for s, end := range ends[1:] {
		if sh := &shards[s]; begin < end {
			sh.now = now
			sh.Unlock()
		}
		begin = end
	}
}

// look guesses at the keys with hashes, which are those of rows from number from on.
func look[K Key](algorithm string, shards []Shard[K], ends []int32, from int32, hashes []uint64, likely []K) {
	n := 0
	for s, end := range ends[1:] {
		upTo := min(int(end-from), len(hashes))
		if n >= upTo {
			continue
		}
		b := shards[s].Map(algorithm)
		for ; n < upTo; n++ {
			likely[n] = b.Look(hashes[n])
		}
	}
}

// sort counts, and puts every row where the count says.
func (o *Order[K]) sort(t *Table[K], texts []string) {
	n := len(texts)
	byRow, rows, hashes := sized(o.byRow, n), sized(o.rows, n), sized(o.hashes, n)
	o.byRow, o.rows, o.hashes = byRow, rows, hashes
	var next [shardCount + 1]int32
	for i, text := range texts {
		hash := t.Hash(text)
		byRow[i] = hash
		next[shardOf(hash)+1]++
	}
	for s := range shardCount {
		next[s+1] += next[s]
	}
	o.ends = next
	for i, hash := range byRow {
		s := shardOf(hash)
		at := next[s]
		rows[at], hashes[at] = int32(i), hash
		next[s] = at + 1
	}
}

func sized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
