// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"sync"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc/usage"
)

// update is one Step under way.
type update struct {
	a        *Aggregator
	now      time.Duration
	settings *settings
	sharing  sharing
	usage    *usage.Report
	host     uint32
	grants   *usage.Grants

	likely    [atOnce]likely // where the rows under way are
	fetched   int            // so that what is read ahead counts as used
	report    algorithm.Report
	reporting *key // whose state a report of a host that it did not know is with
	before    int  // how many hosts it had

	parametrised sharing // of the key whose rule has parameters

	rowOrder order // of the rows, if there are many
}

// updates keeps their memory.
var updates sync.Pool

// newUpdate is one Step, which ends with done.
func newUpdate() *update {
	u, ok := updates.Get().(*update)
	if !ok {
		u = new(update)
	}
	return u
}

// done lets go of all that u refers to.
func (u *update) done() {
	u.a, u.settings, u.usage, u.grants, u.reporting = nil, nil, nil, nil, nil
	u.sharing, u.parametrised = sharing{}, sharing{}
	clear(u.likely[:])
	updates.Put(u)
}

// likely is a guess: a key, or nil, and the number of its row of the host, or
// none. If it is that key and there is a number, the key knows the host, is under
// the settings in force, and has forgotten who is too old.
type likely struct {
	key *key
	row int32
}

// sharing is an algorithm.
type sharing struct {
	algorithm algorithm.Algorithm
	summed    algorithm.Summed // algorithm, if it is one
}

func newSharing(a algorithm.Algorithm) sharing {
	summed, _ := a.(algorithm.Summed)
	return sharing{a, summed}
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
			u.likely[0] = likely{row: none}
			sh := &u.a.shards[shardOf(hashes[0])]
			u.now = sh.lock(u.now)
			failed, why := u.locked(rows[:], hashes[:])
			sh.mu.Unlock()
			u.blame(failed, why)
		}
		return
	}
	o := &u.rowOrder
	o.sort(u.a, u.usage.Keys)
	// Every host begins with another shard, so that two that come at once do
	// not keep in each other's way.
	first := u.host * 7 % shards
	u.through(o, first, shards)
	u.through(o, 0, first)
}

// through decides the rows of the shards from first up to end: of several at
// once where they have few.
func (u *update) through(o *order, first, end uint32) {
	for first < end {
		next := first + 1
		for next < end && o.ends[next+1]-o.ends[first] <= atOnce {
			next++
		}
		for from, last := o.ends[first], o.ends[next]; from < last; from += atOnce {
			u.under(o, first, next, from, min(from+atOnce, last))
		}
		first = next
	}
}

// under decides the rows of o from number from up to end, all of whose keys are
// in the shards from first up to next. Who locks several does so in their order.
func (u *update) under(o *order, first, next uint32, from, end int32) {
	rows, hashes := o.rows[from:end], o.hashes[from:end]
	for s := first; s < next; s++ {
		if sh := &u.a.shards[s]; o.ends[s] < o.ends[s+1] {
			sh.mu.Lock()
			if sh.now > u.now {
				u.now = sh.now
			}
		}
	}
	for s, n := first, 0; s < next; s++ {
		if upTo := int(min(o.ends[s+1], end) - from); n < upTo {
			b := u.a.shards[s].book(u.usage.Algorithm)
			for ; n < upTo; n++ {
				u.likely[n] = likely{b.look(hashes[n]), none}
			}
		}
	}
	u.fetch(rows, u.likely[:len(rows)])
	failed, why := u.locked(rows, hashes)
	for s := first; s < next; s++ {
		if sh := &u.a.shards[s]; o.ends[s] < o.ends[s+1] {
			sh.now = u.now // the latest of all of them
			sh.mu.Unlock()
		}
	}
	u.blame(failed, why)
}

// fetch reads a little of all that rows will need, whose keys all guesses at,
// step by step: where the keys are was first, now what the rows say and the keys,
// then the host's rows, then those beside them. Within a step no read waits for
// another, so the processor has many under way. Row after row, it would wait for
// each. It has keys forget who is too old as well, but for those that have other
// settings to adopt: what is too old is for these to say. An algorithm that
// panics here is to blame if it does so again when its row is decided.
func (u *update) fetch(rows []int32, all []likely) {
	defer func() { _ = recover() }()

	read := 0
	keys := u.usage.Keys
	n := len(keys)
	allowed, rejected, elapsed, weight := u.usage.Allowed[:n], u.usage.Rejected[:n], u.usage.Elapsed[:n], u.usage.Weight[:n]
	for _, i := range rows {
		read += int(keys[i][0]) + int(allowed[i]|rejected[i]) + int(elapsed[i]) + int(weight[i])
	}
	for _, l := range all {
		if l.key != nil {
			read += l.key.fetch()
		}
	}
	guess := none // hosts often have the same row in each key
	for n := range all {
		if k := all[n].key; k != nil && k.settings == u.settings {
			k.expire(u.now, u.a.gone)
			row, some := k.fetchRow(u.host, guess)
			read += int(k.text[0]) + some
			if all[n].row = row; row != none {
				guess = row
			}
		}
	}
	for _, l := range all {
		if l.key != nil && l.key.state == nil {
			read += l.key.ledger.fetch(l.row)
		}
	}
	u.fetched += read
}

// locked decides rows, whose shards are locked, and returns the last of those
// that an algorithm is to blame for.
func (u *update) locked(rows []int32, hashes []uint64) (failed int32, why error) {
	for n := 0; n < len(rows); n++ {
		var err error
		if n, err = u.rows(rows, hashes, n); err != nil {
			failed, why = rows[n], err
			u.fail(int(failed))
		}
	}
	return failed, why
}

// blame logs why an algorithm failed with a row, if it did. A log may be slow:
// no shard is locked.
func (u *update) blame(row int32, why error) {
	if why != nil {
		u.a.blame(u.now, u.usage.Algorithm, u.usage.Keys[row], why)
	}
}

// rows decides rows from number n of them on, whose shard is locked, and
// returns the number of the first that an algorithm is to blame for.
func (u *update) rows(rows []int32, hashes []uint64, n int) (at int, err error) {
	defer recovered(&err)

	for at = n; at < len(rows); at++ {
		if err = u.row(&u.likely[at], int(rows[at]), hashes[at]); err != nil {
			break
		}
	}
	return at, err
}

// fail ends row i, for which an algorithm is to blame.
func (u *update) fail(i int) {
	defer func() { _ = recover() }() // it may do so again

	u.a.metrics.insane.Inc(1)
	u.put(i, algorithm.Grant{}, 0)
	u.joined()
}

// row decides row i, whose key has this hash, and which likely guesses at.
func (u *update) row(likely *likely, i int, hash uint64) error {
	k, row := likely.key, likely.row
	if k == nil || k.text != u.usage.Keys[i] {
		var err error
		if k, err = u.find(hash, u.usage.Keys[i]); err != nil {
			return err
		}
		row = none
	}
	if k != nil && (k.settings != u.settings || k.rule == nil) {
		if !k.adopt(u.now, u.settings, u.usage.Algorithm, u.a.gone) {
			k = nil
		}
		row = none
	}
	if k == nil {
		u.put(i, algorithm.Grant{}, 0)
		return u.elsewhere(i, hash)
	}
	if row == none && !u.admit(k) {
		u.put(i, algorithm.Grant{}, 0)
		return nil
	}
	g, ok := u.decide(k, row, i)
	switch {
	case !ok:
		u.put(i, algorithm.Grant{}, 0)
		return u.unruled(k)
	case !sane(g):
		return insane(g)
	default:
		u.put(i, g, k.lease(u.now))
	}
	return nil
}

// put answers row i with g; a zero lease means that there is no grant.
func (u *update) put(i int, g algorithm.Grant, lease time.Duration) {
	grants := u.grants
	grants.Weight[i], grants.Burst[i], grants.Used[i], grants.Lease[i] = g.Weight, g.Burst, g.Used, lease
	if grants.Tokens != nil {
		grants.Tokens[i] = g.Tokens
	}
}

// admit makes k, which may or may not know the host, ready for a report of it.
// It returns false if there is no room for another.
func (u *update) admit(k *key) bool {
	k.expire(u.now, u.a.gone)
	hosts := k.hosts()
	if hosts >= k.settings.maxHosts && !k.knows(u.host) {
		u.a.metrics.noRoom.Inc(1)
		return false
	}
	if k.state != nil {
		u.reporting, u.before = k, hosts
	}
	return true
}

// decide takes in row i, about k, and returns what the host may do; false if it
// should go on as it is. Its row is number row, or none has been found.
func (u *update) decide(k *key, row int32, i int) (g algorithm.Grant, ok bool) {
	part := k.part(u.now)
	if k.state != nil {
		k.report(&u.report, u.usage, i, part)
		g, ok = k.state.Report(u.now, k.limit(part), u.host, &u.report)
		if u.reporting != nil {
			u.joined()
		}
		if u.report.Overlaps {
			u.overlap()
		}
	} else {
		if row == none {
			row = k.ledger.rows.Find(u.host)
		}
		row = u.record(k, row, i)
		if has := u.usage.Weight[i]; u.now < k.learns && has > 0 {
			return algorithm.Grant{Weight: has, Burst: has * k.rule.Burst, Used: k.ledger.sum.demand().Total()}, true
		}
		by := &u.sharing
		if len(k.rule.Parameters) > 0 {
			if by = u.ruled(k); by == nil {
				return g, false
			}
		}
		g, ok = k.grant(u.now, part, by, u.host, row)
	}
	if k.above != nil { // hosts know the rule's limit only
		k.stir(u.now)
		g.Weight *= part
		g.Used = max(g.Used, float64(k.rule.Limit)) // what is left of it is not for them
		ok = ok && !k.waits()
	}
	return g, ok
}

// overlap counts a row about time that an earlier one covered.
func (u *update) overlap() {
	u.report.Overlaps = false
	u.a.metrics.overlapping.Inc(1)
}

// elsewhere takes in row i, whose key has this hash, if the key's rule has
// another algorithm decide than the one that the host names: because the rules
// have changed, and one of the two has not heard of it. The host keeps what it
// has until its lease ends, and the rule's account counts it.
func (u *update) elsewhere(i int, hash uint64) error {
	text := u.usage.Keys[i]
	_, rule := u.settings.match(text, u.usage.Algorithm)
	if rule == nil || bypassed(rule) {
		return nil
	}
	name := answering(rule)
	b := u.a.shards[shardOf(hash)].book(name)
	k := b.find(hash, text)
	if k == nil {
		alg, err := u.settings.algorithm(rule, name)
		if err != nil {
			return nil // nothing is shared by that name; or hosts that name it are told
		}
		if k, err = u.a.newKey(b, u.settings, alg, hash, text, u.now); k == nil {
			return err
		}
		k.enter()
	}
	if !k.adopt(u.now, u.settings, name, u.a.gone) || !u.admit(k) {
		return nil
	}
	if k.state == nil {
		u.record(k, k.ledger.rows.Find(u.host), i)
		return nil
	}
	u.report.Elsewhere = true
	u.decide(k, none, i)
	u.report.Elsewhere = false
	return nil
}

// joined counts the host if the state that was reported to did not know it
// before. It may panic, as algorithms do.
func (u *update) joined() {
	k := u.reporting
	if k == nil {
		return
	}
	u.reporting = nil
	if k.state.Hosts() > u.before && k.state.Knows(u.host) {
		u.a.hosts.add(u.host, 1)
	}
}

// record takes in what row i says the host uses of k, whose row it has, or none.
// It returns the row.
func (u *update) record(k *key, row int32, i int) int32 {
	d := demand(u.usage, i, u.settings.shortest)
	if !(d.Total() > 0) {
		return row
	}
	if row == none {
		u.a.hosts.add(u.host, 1)
	}
	return k.ledger.record(u.now, row, u.host, d, u.usage.Elapsed[i], k.settings)
}

// ruled is the algorithm with the parameters of k's rule; nil if they cannot be
// used.
func (u *update) ruled(k *key) *sharing {
	alg, err := u.settings.algorithm(k.rule, u.usage.Algorithm)
	if err != nil {
		return nil
	}
	u.parametrised = newSharing(alg)
	return &u.parametrised
}

// unruled is why the parameters of k's rule cannot be used, if that is so.
func (u *update) unruled(k *key) error {
	if len(k.rule.Parameters) == 0 {
		return nil
	}
	_, err := u.settings.algorithm(k.rule, u.usage.Algorithm)
	return err
}

// find finds or makes the key called text; nil if there is no room. The error
// says that the algorithm is to blame.
func (u *update) find(hash uint64, text string) (*key, error) {
	b := u.a.shards[shardOf(hash)].book(u.usage.Algorithm)
	if k := b.find(hash, text); k != nil {
		return k, nil
	}
	return u.make(b, hash, text)
}

// make makes the key called text.
func (u *update) make(b *book, hash uint64, text string) (k *key, err error) {
	rule, instead := u.settings.match(text, u.usage.Algorithm)
	if instead != nil {
		return nil, nil
	}
	alg := u.sharing.algorithm
	if len(parameters(rule)) > 0 {
		if alg, err = u.settings.algorithm(rule, u.usage.Algorithm); err != nil {
			return nil, err
		}
	}
	k, err = u.a.newKey(b, u.settings, alg, hash, text, u.now)
	if k != nil {
		k.enter() // hosts that report hold max_keys themselves
	}
	return k, err
}
