// SPDX-License-Identifier: Apache-2.0

package aggregator

import "time"

// GC forgets hosts that have been silent for gc_after, keys that have no hosts
// left, and buckets that are full.
func (c *Core) GC(now time.Duration) {
	s := c.settings.Load()
	for sh := range c.keys.Table.All {
		for _, e := range sh.Entries() {
			if err := c.keys.Sweep(now, s, sh, e); err != nil {
				c.metrics.invalid.Inc(1)
				c.blame(now, e.Algorithm, s.Snapshot.Shown(e.Key.Text()), err)
			}
		}
	}
	c.keys.Parent.Expire()
	c.batches.Expire(now)
	c.metrics.keys.Update(float64(c.keys.Len()))
	c.metrics.hosts.Update(float64(c.keys.Hosts.Len()))
}
