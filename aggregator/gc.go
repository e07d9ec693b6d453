// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"slices"
	"time"
)

// GC forgets hosts that have been silent for gc_after, keys that have no hosts
// left, and buckets that are full.
func (a *Aggregator) GC(now time.Duration) {
	s := a.settings.Load()
	for i := range a.shards {
		sh := &a.shards[i]
		for _, e := range sh.entries() {
			if err := a.sweep(now, s, sh, e); err != nil {
				a.metrics.insane.Inc(1)
				a.blame(now, e.algorithm, e.key.text, err)
			}
		}
	}
	a.children.expire()
	a.callers.expire(now)
	a.metrics.keys.Update(float64(a.keys.Load()))
	a.metrics.hosts.Update(float64(a.hosts.len()))
}

// entry is a key and the book that it is in. A book stays for ever.
type entry struct {
	slot
	algorithm string
}

// entries of the books in sh.
func (sh *shard) entries() (all []entry) {
	sh.mu.Lock()
	defer sh.mu.Unlock()

	for _, b := range sh.books {
		all = slices.Grow(all, b.live)
		for _, s := range b.slots {
			if s.key != nil {
				all = append(all, entry{s, b.algorithm})
			}
		}
	}
	return all
}

// sweep is GC for one key. A key whose algorithm panics stays.
func (a *Aggregator) sweep(now time.Duration, s *settings, sh *shard, e entry) (err error) {
	now = sh.lock(now)
	defer sh.mu.Unlock()
	defer recovered(&err)

	b, k := sh.book(e.algorithm), e.key
	if b.find(e.hash, k.text) != k {
		return nil // another GC was here
	}
	k.adopt(now, s, e.algorithm)
	a.raise(now, sh, k)
	k.account.Expire(now, a.gone)
	if k.account.Hosts() == 0 && !k.keeps(now) {
		b.remove(e.hash, k)
		k.leave()
		a.keys.Add(-1)
		k.above = nil
	}
	return nil
}

// forget is called when a row of host is gone.
func (a *Aggregator) forget(host uint32) { a.hosts.add(host, -1) }
