// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
)

// changeRules publishes what an action changes of the limits, or ends an override.
func (c *cluster) changeRules(a *scenario.Action, t todo) (err error) {
	switch {
	case a.Do == "limit":
		c.stated, err = scenario.WithLimit(c.stated, a.Key, a.Limit, a.Burst)
	case a.Do == "algorithm":
		c.stated, err = scenario.WithAlgorithmOf(c.stated, a.Key, a.Algorithm)
	case t.undo:
		return c.publish(false)
	default:
		c.overrides = slices.DeleteFunc(c.overrides, func(o dynamicconfig.Override) bool { return o.Key == a.Key })
		c.overrides = append(c.overrides, dynamicconfig.Override{
			Key: a.Key, Factor: a.Factor, Until: began.Add(c.Now + a.For), Author: "scenario", Reason: "an event",
		})
		t.undo = true
		c.later(c.Now+a.For, t)
	}
	if err != nil {
		return err
	}
	return c.publish(true)
}

// began is what wall clocks say at the start of a run.
var began = time.Unix(1_800_000_000, 0)

// publish makes the limits as they are now the newest version. The oracle follows at
// once, and hosts too if they know of it already. Else they follow when the news
// reach them.
func (c *cluster) publish(news bool) error {
	now := began.Add(c.Now)
	next, err := dynamicconfig.Config{
		Name: c.stated.Name(), Properties: c.stated.Properties(), Rules: c.stated.Rules(), Overrides: c.overrides,
	}.Snapshot()
	if err != nil {
		return err
	}
	next = next.At(now)
	if err := c.Adopt(next); err != nil {
		return err
	}
	seen := make(map[*measure.Bucket]bool)
	for _, k := range c.keys {
		rule, _ := next.Match(k.name)
		b := k.bucket
		limit, burst := b.Limit()
		if seen[b] || float64(rule.Limit) == limit && rule.Burst == burst {
			continue
		}
		seen[b] = true
		b.SetLimit(c.Now, float64(rule.Limit), rule.Burst)
	}
	for _, h := range c.hosts {
		delay := c.Delay(h.Host)
		if !news {
			delay = 0
		}
		if h.Up {
			c.Tell(h.Host, delay)
		}
	}
	return nil
}
