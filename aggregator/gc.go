// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/excess"
	"github.com/headgate/headgate/dynamicconfig"
)

// GC forgets hosts that have been silent for too long, keys that have no hosts
// left, and buckets that are full.
func (c *Core) GC(now time.Duration) {
	s := c.settings.Load()
	seen := make(excess.Seen)
	look := func(rule *dynamicconfig.Rule, state account.State) { seen.Note(rule.Key, state) }
	for sh := range c.keys.Table.All {
		for _, e := range sh.Entries() {
			if err := c.keys.Sweep(now, s, sh, e, look); err != nil {
				c.metrics.invalid.Inc(1)
				c.blame(now, e.Algorithm, s.Snapshot.Shown(e.Key.Text()), err)
			}
		}
	}
	c.metrics.excesses.Show(seen)
	c.metrics.keys.Update(float64(c.keys.Len()))
	c.metrics.hosts.Update(float64(c.keys.Hosts.Len()))
}
