// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/aggregator/internal/table"
	"github.com/headgate/headgate/rpc"
)

// GC forgets hosts that have been silent for gc_after, keys that have no hosts
// left, and buckets that are full.
func (a *Aggregator) GC(now time.Duration) {
	s := a.settings.Load()
	for sh := range a.table.All {
		for _, e := range sh.Entries() {
			if err := a.sweep(now, s, sh, e); err != nil {
				a.metrics.invalid.Inc(1)
				a.blame(now, e.Algorithm, e.Key.Text(), err)
			}
		}
	}
	a.parent.Expire()
	a.batches.Expire(now)
	a.metrics.keys.Update(float64(a.keys.Load()))
	a.metrics.hosts.Update(float64(a.hosts.Len()))
}

// sweep is GC for one key. A key whose algorithm panics stays.
func (a *Aggregator) sweep(now time.Duration, s *rules.Settings, sh *shard, e table.Entry[*owned.Key]) (err error) {
	now = sh.Lock(now)
	defer sh.Unlock()
	defer rpc.Recovered(&err)

	b, k := sh.Book(e.Algorithm), e.Key
	if b.Find(e.Hash, k.Text()) != k {
		return nil // another GC was here
	}
	if !a.adopt(now, sh, k, s, e.Algorithm, e.Hash) && b.Find(e.Hash, k.Text()) != k {
		return nil // it is in another book, of which the next GC takes care
	}
	a.raise(now, sh, b, k)
	k.Account.Expire(now, a.hosts.Gone)
	if k.Account.Hosts() == 0 && !k.Keeps(now, s.Accounts.Average.GCAfter) {
		b.Remove(e.Hash, k)
		k.Count(-1)
		a.keys.Add(-1)
		k.Above = k.Above.Follow(nil, false)
	}
	return nil
}
