// SPDX-License-Identifier: Apache-2.0

package aggregator

import "time"

// GC forgets hosts that have been silent for gc_after, and keys that have no
// hosts left.
func (a *Aggregator) GC(now time.Duration) {
	s := a.settings.Load()
	for i := range a.shards {
		sh := &a.shards[i]
		for _, n := range sh.names() {
			if err := a.sweep(now, s, sh, n); err != nil {
				a.metrics.insane.Inc(1)
				a.blame(now, n, err)
			}
		}
	}
	a.metrics.keys.Update(float64(a.keys.Load()))
	a.metrics.hosts.Update(float64(a.hosts.len()))
}

// names of the keys in sh.
func (sh *shard) names() []name {
	sh.mu.Lock()
	defer sh.mu.Unlock()

	names := make([]name, 0, len(sh.keys))
	for n := range sh.keys {
		names = append(names, n)
	}
	return names
}

// sweep is GC for one key. A key whose algorithm panics stays.
func (a *Aggregator) sweep(now time.Duration, s *settings, sh *shard, n name) (err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	defer recovered(&err)

	k := sh.keys[n]
	if k == nil {
		return nil
	}
	k.adopt(s, n.key)
	k.expire(now, a.gone)
	if k.hosts() == 0 {
		delete(sh.keys, n)
		a.keys.Add(-1)
	}
	return nil
}

// forget is called when a row of host is gone.
func (a *Aggregator) forget(host uint32) { a.hosts.add(host, -1) }
