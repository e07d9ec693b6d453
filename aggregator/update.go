// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"hash/maphash"
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
}

const (
	// few is up to how many keys are taken as they come. More are taken
	// shard by shard: a lock that goes back and forth between processors
	// costs more than the key behind it.
	few = 64

	// atOnce is how many keys are taken under one lock, at most: others of
	// the shard wait for so many.
	atOnce = 32
)

// all decides all rows.
func (u *update) all() {
	if u.usage.Len() <= few {
		var rows [1]int32
		for i := range u.usage.Keys {
			rows[0] = int32(i)
			u.under(u.a.shard(u.usage.Keys[i]), rows[:])
		}
		return
	}
	o, ok := orders.Get().(*order)
	if !ok {
		o = new(order)
	}
	defer orders.Put(o)

	o.sort(u.a.seed, u.usage.Keys)
	// Every host begins with another shard, so that two that come at once do
	// not keep in each other's way.
	for i := range uint32(shards) {
		at := (i + u.host*7) % shards
		for rows := range slices.Chunk(o.rows[o.ends[at]:o.ends[at+1]], atOnce) {
			u.under(&u.a.shards[at], rows)
		}
	}
}

// under decides rows, all of whose keys are in sh.
func (u *update) under(sh *shard, rows []int32) {
	failed, why := int32(none), error(nil)
	sh.mu.Lock()
	for _, i := range rows {
		if err := u.row(sh, int(i)); err != nil {
			failed, why = i, err
		}
	}
	sh.mu.Unlock()
	if why != nil { // a log may be slow
		u.a.blame(u.now, name{u.usage.Algorithm, u.usage.Keys[failed]}, why)
	}
}

// row decides row i, whose shard is locked. The error says that the algorithm
// is to blame.
func (u *update) row(sh *shard, i int) error {
	g, lease, err := u.decide(sh, i)
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

// decide returns what the host may do; a zero lease means that there is no
// grant.
func (u *update) decide(sh *shard, i int) (g algorithm.Grant, lease time.Duration, err error) {
	defer recovered(&err)

	k, err := u.a.find(sh, u.settings, u.alg, u.usage.Algorithm, u.usage.Keys[i])
	if k == nil || err != nil || !k.adopt(u.settings, u.usage.Keys[i]) {
		return g, 0, err
	}
	k.expire(u.now, u.a.gone)
	if k.hosts() >= k.settings.maxHosts && !k.knows(u.host) {
		u.a.metrics.noRoom.Inc(1)
		return g, 0, nil
	}
	next, ok := u.a.decide(u.now, k, u.alg, u.usage, i, u.host)
	switch {
	case !ok:
		return g, 0, nil
	case !sane(next):
		return g, 0, insane(next)
	}
	return next, k.rule.Lease, nil
}

// order is the rows of a Usage by shard.
type order struct {
	shard []uint8 // by row
	rows  []int32 // those of one shard after those of another
	ends  [shards + 1]int32
}

var orders sync.Pool

// sort counts, and puts every row where the count says.
func (o *order) sort(seed maphash.Seed, keys []string) {
	n := len(keys)
	o.shard, o.rows = slices.Grow(o.shard[:0], n)[:n], slices.Grow(o.rows[:0], n)[:n]
	var next [shards + 1]int32
	for i, key := range keys {
		o.shard[i] = shardOf(seed, key)
		next[o.shard[i]+1]++
	}
	for s := range shards {
		next[s+1] += next[s]
	}
	o.ends = next
	for i, s := range o.shard {
		o.rows[next[s]] = int32(i)
		next[s]++
	}
}

// shardOf is where key is.
func shardOf(seed maphash.Seed, key string) uint8 {
	return uint8(maphash.String(seed, key) % shards)
}
