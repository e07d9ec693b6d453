// SPDX-License-Identifier: Apache-2.0

package aggregator

import "slices"

// order is the rows of a Usage by shard.
type order struct {
	byRow  []uint64 // hashes
	rows   []int32  // those of one shard after those of another
	hashes []uint64 // of rows, beside them
	ends   [shards + 1]int32
}

// sort counts, and puts every row where the count says.
func (o *order) sort(a *Aggregator, keys []string) {
	n := len(keys)
	o.byRow, o.rows, o.hashes = sized(o.byRow, n), sized(o.rows, n), sized(o.hashes, n)
	var next [shards + 1]int32
	for i, key := range keys {
		o.byRow[i] = a.hash(key)
		next[shardOf(o.byRow[i])+1]++
	}
	for s := range shards {
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

// shardOf is where a key with hash is. Books use the lower bits.
func shardOf(hash uint64) uint64 { return hash >> (64 - shardBits) }
