// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"time"

	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
)

// Claim answers claims, which passed Check, at now. A claim that cannot be
// answered (no room, an algorithm that does not lease) is Refused with the
// reason, and costs the others nothing. A key that no rule matches gets what it
// wants, if the rules allow such keys. Time is as in Step.
func (c *Core) Claim(now time.Duration, asked *claims.Claims) *claims.Leases {
	leases := &claims.Leases{Rows: make([]claims.Lease, len(asked.Rows))}
	s := c.settings.Load()
	for i := range asked.Rows {
		leases.Rows[i] = c.claim(now, s, &asked.Rows[i])
		if leases.Rows[i].Refused != "" {
			c.metrics.claimsRefused.Inc(1)
		}
	}
	c.metrics.claims.Inc(int64(len(asked.Rows)))
	return leases
}

// claim answers one.
func (c *Core) claim(now time.Duration, s *rules.Settings, one *claims.Claim) claims.Lease {
	rule, ok := s.Snapshot.Match(one.Key)
	if !ok || rules.Disabled(rule) || rule.Bypassed() {
		c.metrics.unmatched.Inc(1)
		return unmatched(one, ok || s.Snapshot.Unmatched() != dynamicconfig.UnmatchedDeny, !ok)
	}
	name := s.Answering(rule)
	config, err := s.Config(rule, name)
	if errors.Is(err, algorithm.ErrParameter) {
		c.blame(now, name, rule.Shown(one.Key), err)
		return owned.Refused("the key's rule has parameters that its algorithm %s does not take", name)
	}
	if err != nil || config.Algorithm.Account != algorithm.AccountClaims { // the registry may not have it, which is no failure
		return owned.Refused("the key's algorithm %s hands out no leases: use none, static, proportional-share or fair-share", name)
	}
	lease, err := c.keys.Claim(now, s, config, name, one)
	if err != nil {
		c.blame(now, name, rule.Shown(one.Key), err)
		return owned.Refused("the key's algorithm %s failed: the log of the key's owner says why", name)
	}
	return lease
}

// unmatched is the answer to c, about a key that no rule limits, if such keys are
// allowed. Unknown says that no rule matches the key.
func unmatched(c *claims.Claim, allowed, unknown bool) claims.Lease {
	if !allowed {
		return owned.Refused("no rule matches the key")
	}
	if c.Release {
		return claims.Lease{Unknown: unknown}
	}
	wants := 0.0
	for _, b := range c.Bands {
		wants += b.Wants
	}
	if c.Keep {
		wants = c.Has
	}
	return claims.Lease{Amount: wants, Lasts: unmatchedLease, Refresh: unmatchedLease / 4, Safe: wants, Unknown: unknown}
}

// unmatchedLease is for how long a key without a rule gets what it wants: until
// about when it should be asked whether there is a rule by now.
const unmatchedLease = time.Minute
