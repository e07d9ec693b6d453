// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"math"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/recent"
	"github.com/headgate/headgate/internal/topkeys"
	"github.com/headgate/headgate/limiter"
)

// TopKey is a key of this host that an operator should look at.
type TopKey struct {
	// Rule is the key of the rule that matched. Key is the key as operators may see it.
	Rule, Key string
	// Allowed and Rejected are in tokens, since the Desk remembers the key. They never decrease.
	Allowed, Rejected float64
	// Limit is the cluster's, in tokens/s or in slots.
	Limit float64
	// Used is the part of Limit that this host used during about the last half minute; NaN for a
	// key that is not among those nearest to their limits.
	Used float64
	// Weight is the part of Limit that is this host's, in [0, 1]; NaN without a grant.
	Weight float64
}

// TopKeys are the keys that are used most, rejected most, nearest to their limits, and least
// evenly used over the hosts: at most four times as many as WithTopKeys said, in no order. There
// are none without that, and while the Desk does not Run.
func (d *Desk) TopKeys() (all []TopKey) {
	if d.top == nil {
		return nil
	}
	limits := d.node.Limits().Current()
	for _, name := range d.top.Keys() {
		status, live := d.node.Group().Inspect(name)
		rule, matched := limits.Match(name)
		known, still := d.top.Key(name)
		if !live || !matched || !still || len(status.Shares) == 0 {
			continue
		}
		s := status.Answering()
		k := TopKey{
			Rule: status.Rule, Key: status.Key, Allowed: known.Allowed, Rejected: known.Rejected,
			Limit: limitOf(rule), Used: math.NaN(), Weight: math.NaN(),
		}
		if known.Used > 0 {
			k.Used = known.Used
		}
		if s.Lease > 0 && !s.Fallback {
			k.Weight = s.Weight
		}
		all = append(all, k)
	}
	return all
}

// limitOf is what a rule allows each key; infinite while an override lets everything through.
func limitOf(rule *dynamicconfig.Rule) float64 {
	if rule.Bypassed() {
		return math.Inf(1)
	}
	return float64(rule.Limit)
}

// RuleUse is how much of a rule's limit is used.
type RuleUse struct {
	// Rule is the rule's key.
	Rule string
	// Limit is that of each of its keys, in tokens/s or in slots.
	Limit float64
	// Used is the part of Limit that this host used during about the last half minute, of the key
	// that it used the largest part of; NaN without WithTopKeys.
	Used float64
}

// maxRules bounds the rules that RuleUse reports.
const maxRules = 10_000

// RuleUse is the use of all rules.
func (d *Desk) RuleUse() (all []RuleUse) {
	for rule := range d.node.Limits().Current().Each() {
		if len(all) == maxRules {
			break
		}
		u := RuleUse{Rule: rule.Key, Limit: limitOf(rule), Used: math.NaN()}
		if d.top != nil {
			u.Used = d.top.Rule(rule.Key)
		}
		all = append(all, u)
	}
	return all
}

// count takes in what all keys counted until now.
func (d *Desk) count(now time.Time) {
	elapsed := now.Sub(d.counted)
	d.counted = now
	hosts := float64(max(d.node.Ring().Len(), 1))
	group := d.node.Group()
	d.recorder.Step(now, func(add recent.Add) {
		if d.top == nil {
			group.Counts(func(c limiter.Count) {
				add(c.Key, tokensOf(&c))
			})
			return
		}
		d.top.Step(elapsed, func(f func(topkeys.Count)) {
			group.Counts(func(c limiter.Count) {
				now := add(c.Key, tokensOf(&c))
				t := topkeys.Count{
					Key: c.Key, Rule: c.Rule.Key, Allowed: float64(now.Allowed), Rejected: float64(now.Rejected),
					Limit: limitOf(c.Rule), InFlight: c.Rule.InFlight, Held: float64(c.Held), Weight: 1,
				}
				if c.Granted {
					t.Weight = c.Weight * hosts
				}
				f(t)
			})
		})
	})
}

// tokensOf is what c has counted.
func tokensOf(c *limiter.Count) recent.Tokens {
	return recent.Tokens{Allowed: c.Allowed, Rejected: c.Rejected, Costly: c.Costly}
}
