// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

// Status is what a host knows of one of its keys: why it is limited as it is.
type Status struct {
	Key string
	// Rule is the pattern that matched; empty when none did.
	Rule string
	// Mode is the migration's, or ModeNew when there is none.
	Mode dynamicconfig.Mode
	// Shares has the limiter, or the old and the new one of a migration.
	// It is empty for keys that are not limited by themselves.
	Shares []ShareStatus
}

// ShareStatus is one limiter of a key.
type ShareStatus struct {
	Algorithm string
	Level     Level
	// Fallback: there is no valid grant, or a bucket elsewhere does not
	// answer. Always false for Even.
	Fallback bool
	// Asks: the bucket of this key is elsewhere now, and asked for each event.
	Asks bool
	// Held and Waiting are slots in flight on this host, and those that are
	// waited for; 0 when the rule limits a rate.
	Held, Waiting int64
	// Weight and Used are the newest grant's; Lease is what is left of it.
	Weight, Used float64
	Lease        time.Duration
	// Allowed and Rejected count cost since the key came to life.
	Allowed, Rejected int64
}

// Inspect tells about key at now; false if it is not live, or asleep because
// nobody used it for two intervals.
func (g *Group) Inspect(now Instant, key string) (Status, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.mergeLocked()
	core := g.coreOf(key)
	if core == nil {
		return Status{}, false
	}
	st := Status{Key: key, Mode: dynamicconfig.ModeNew}
	if rule := core.admitted.rule; rule != nil {
		st.Rule = rule.Key
		if rule.Migration != nil {
			st.Mode = rule.Migration.Mode
		}
	}
	for i, s := range core.shares {
		var slots census
		if s.slots != nil {
			slots = s.slots.census()
		}
		counted := s.count(now)
		status := ShareStatus{
			Algorithm: s.algorithm,
			Level:     core.step(i).Level(now),
			Fallback:  core.inFallback(i),
			Held:      slots.held,
			Waiting:   slots.waiting,
			Weight:    s.grant.weight,
			Used:      s.grant.used,
			Lease:     max(s.grant.until.Sub(now), 0),
			Allowed:   counted.allowed,
			Rejected:  counted.rejected,
		}
		core.whoIsAsked(i, &status)
		st.Shares = append(st.Shares, status)
	}
	return st, true
}
