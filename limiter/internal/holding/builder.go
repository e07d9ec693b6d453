// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
)

// Builder makes the Holdings of a host. All fields must be set.
type Builder struct {
	Reporter *report.Reporter
	Hub      *remote.Hub
	Links    map[string]*remote.Link // to the Remotes of algorithms
	Migrator stage.Migrator
}

// Begin makes the Holding of key that plan wants, out of the one before: counts, tokens
// and grants stay wherever an algorithm stays. nil is the plan of a key that has no parts.
func (b *Builder) Begin(now stage.Instant, key string, old *Holding, plan *Plan, hosts int) Change {
	c := Change{builder: b, key: key, old: before{Holding: old, now: now, hosts: hosts}}
	c.old.settle()
	if c.held = c.old.heldSlots(); plan != nil {
		c.Next.plan = plan
		c.fill()
		if plan.Rule.Bypassed() && c.Next.Stage != nil {
			c.Next.Stage = Bypassed{c.Next.Stage}
		}
	}
	c.Next.extras = c.Next.extras.withCarryover(c.old.carryOver(&c.Next))
	return c
}
