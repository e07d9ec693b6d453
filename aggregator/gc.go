// SPDX-License-Identifier: Apache-2.0

package aggregator

import "time"

// GC forgets hosts that have been silent for gc_after, keys that have no hosts
// left, and buckets that are full.
func (a *Aggregator) GC(now time.Duration) {
	s := a.settings.Load()
	for sh := range a.keys.Table.All {
		for _, e := range sh.Entries() {
			if err := a.keys.Sweep(now, s, sh, e); err != nil {
				a.metrics.invalid.Inc(1)
				a.blame(now, e.Algorithm, s.Snapshot.Shown(e.Key.Text()), err)
			}
		}
	}
	a.keys.Parent.Expire()
	a.batches.Expire(now)
	a.metrics.keys.Update(float64(a.keys.Len()))
	a.metrics.hosts.Update(float64(a.keys.Hosts.Len()))
}
