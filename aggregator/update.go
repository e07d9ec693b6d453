// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc"
)

// update is one Step under way.
type update struct {
	a        *Aggregator
	now      time.Duration
	settings *settings
	alg      algorithm.Algorithm
	usage    *rpc.Usage
	host     uint32
	grants   *rpc.Grants
	fetched  int // so that what is read ahead counts as used
}

const (
	// few is up to how many keys are taken as they come. More are taken
	// shard by shard: a lock that goes back and forth between processors
	// costs more than the key behind it.
	few = 64

	// atOnce is how many keys are taken under one lock, at most: others of
	// the shard wait for so many. It is also how many keys' memory is fetched
	// at once.
	atOnce = 32
)

// all decides all rows.
func (u *update) all() {
	if u.usage.Len() <= few {
		var rows [1]int32
		var hashes [1]uint64
		for i, key := range u.usage.Keys {
			rows[0], hashes[0] = int32(i), u.a.hash(key)
			u.under(&u.a.shards[shardOf(hashes[0])], rows[:], hashes[:])
		}
		return
	}
	o, ok := orders.Get().(*order)
	if !ok {
		o = new(order)
	}
	defer orders.Put(o)

	o.sort(u.a, u.usage.Keys)
	// Every host begins with another shard, so that two that come at once do
	// not keep in each other's way.
	for i := range uint32(shards) {
		at := (i + u.host*7) % shards
		for from, end := o.ends[at], o.ends[at+1]; from < end; from += atOnce {
			to := min(from+atOnce, end)
			u.under(&u.a.shards[at], o.rows[from:to], o.hashes[from:to])
		}
	}
}

// under decides rows, all of whose keys are in sh.
func (u *update) under(sh *shard, rows []int32, hashes []uint64) {
	failed, why := int32(none), error(nil)
	sh.mu.Lock()
	b := sh.books[u.usage.Algorithm]
	if b == nil {
		b = sh.open(u.usage.Algorithm)
	}
	var likely [atOnce]*key // by row; nil says nothing
	if len(rows) > 1 {
		u.fetch(b, hashes, &likely)
	}
	for n, i := range rows {
		if err := u.row(b, likely[n], int(i), hashes[n]); err != nil {
			failed, why = i, err
		}
	}
	sh.mu.Unlock()
	if why != nil { // a log may be slow
		u.a.blame(u.now, u.usage.Algorithm, u.usage.Keys[failed], why)
	}
}

// fetch reads a little of all that the rows will need, step by step: first
// where their keys are, then the keys, then the host's rows. Within a step no
// read waits for another, so the processor has many under way. Row after row,
// it would wait for each. An algorithm that panics here does so again when its
// row is decided.
func (u *update) fetch(b *book, hashes []uint64, keys *[atOnce]*key) {
	defer func() { _ = recover() }()

	for n, hash := range hashes {
		keys[n] = b.look(hash)
	}
	for _, k := range keys[:len(hashes)] {
		if k != nil {
			u.fetched += len(k.text) + k.hosts()
		}
	}
	for _, k := range keys[:len(hashes)] {
		if k != nil && k.knows(u.host) {
			u.fetched += int(k.text[0])
		}
	}
}

// row decides row i, whose shard is locked, and which is likely about that key.
// The error says that the algorithm is to blame.
func (u *update) row(b *book, likely *key, i int, hash uint64) error {
	g, lease, err := u.decide(b, likely, i, hash)
	if err != nil {
		u.a.metrics.insane.Inc(1)
	}
	grants := u.grants
	grants.Weight[i], grants.Burst[i], grants.Used[i], grants.Lease[i] = g.Weight, g.Burst, g.Used, lease
	if grants.Tokens != nil {
		grants.Tokens[i] = g.Tokens
	}
	return err
}

// decide returns what the host may do about row i, which is likely about k; a zero
// lease means that there is no grant.
func (u *update) decide(b *book, k *key, i int, hash uint64) (g algorithm.Grant, lease time.Duration, err error) {
	defer recovered(&err)

	if k == nil || k.text != u.usage.Keys[i] {
		k = b.find(hash, u.usage.Keys[i])
	}
	if k == nil {
		k, err = u.make(b, hash, u.usage.Keys[i])
	}
	if k == nil || err != nil || !k.adopt(u.settings, u.usage.Algorithm, u.a.gone) {
		return g, 0, err
	}
	k.expire(u.now, u.a.gone)
	if k.hosts() >= k.settings.maxHosts && !k.knows(u.host) {
		u.a.metrics.noRoom.Inc(1)
		return g, 0, nil
	}
	alg := u.alg
	if len(k.rule.Parameters) > 0 {
		alg, _ = u.settings.algorithm(k.rule, u.usage.Algorithm)
	}
	next, ok := u.a.decide(u.now, k, alg, u.usage, i, u.host)
	switch {
	case !ok:
		return g, 0, nil
	case !sane(next):
		return g, 0, insane(next)
	}
	return next, k.lease(u.now), nil
}

// make makes the key called text. An error beside a key says that something
// else than what its rule wants decides.
func (u *update) make(b *book, hash uint64, text string) (k *key, err error) {
	alg := u.alg
	if rule, ok := u.settings.snapshot.Match(text); ok && len(rule.Parameters) > 0 {
		alg, err = u.settings.algorithm(rule, u.usage.Algorithm)
	}
	k, failed := u.a.newKey(b, u.settings, alg, hash, text, u.now)
	if failed != nil {
		err = failed
	}
	if k != nil {
		k.enter() // hosts that report hold max_keys themselves
	}
	return k, err
}

// order is the rows of a Usage by shard.
type order struct {
	byRow  []uint64 // hashes
	rows   []int32  // those of one shard after those of another
	hashes []uint64 // of rows, beside them
	ends   [shards + 1]int32
}

var orders sync.Pool

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
