// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
)

// Claim answers claims, which passed Check, at now. A claim that cannot be
// answered (no room, an algorithm that does not lease) is Refused with the
// reason, and costs the others nothing. A key that no rule matches gets what it
// wants, if the rules allow such keys. Time is as in Step.
func (a *Aggregator) Claim(now time.Duration, asked *claims.Claims) *claims.Leases {
	leases := &claims.Leases{Rows: make([]claims.Lease, len(asked.Rows))}
	s := a.settings.Load()
	for i := range asked.Rows {
		c := claimant{a: a, now: now, settings: s, claim: &asked.Rows[i]}
		leases.Rows[i] = c.ask()
	}
	a.metrics.claims.Inc(int64(len(asked.Rows)))
	return leases
}

// claimant is one claim under way.
type claimant struct {
	a        *Aggregator
	now      time.Duration
	settings *settings
	claim    *claims.Claim
}

func (c *claimant) ask() claims.Lease {
	rule, ok := c.settings.snapshot.Match(c.claim.Key)
	if !ok || bypassed(rule) {
		return c.unmatched(ok)
	}
	name := answering(rule)
	alg, err := c.settings.algorithm(rule, name)
	if errors.Is(err, algorithm.ErrParameter) {
		c.a.blame(c.now, name, c.claim.Key, err)
		return c.refuse("the key's rule has parameters that its algorithm %s does not take", name)
	}
	leasing, ok := alg.(algorithm.Leasing)
	if !ok { // it may be none of the registry's, which is nobody's failure
		return c.refuse("the key's algorithm %s hands out no leases: use none, static, proportional-share or fair-share", name)
	}
	hash := c.a.hash(c.claim.Key)
	sh := &c.a.shards[shardOf(hash)]
	id := c.a.hosts.acquire(c.claim.Host)
	defer c.a.hosts.add(id, -1)

	lease, err := c.under(sh, name, leasing, hash, id)
	if err != nil {
		c.a.blame(c.now, name, c.claim.Key, err)
	}
	return lease
}

// under is the claim as host id, in sh. The error says that the algorithm is to
// blame.
func (c *claimant) under(sh *shard, name string, alg algorithm.Leasing, hash uint64, id uint32) (lease claims.Lease, err error) {
	c.now = sh.lock(c.now)
	defer sh.mu.Unlock()
	defer recovered(&err)

	b := sh.book(name)
	k := b.find(hash, c.claim.Key)
	if k == nil {
		if c.claim.Release {
			return claims.Lease{}, nil
		}
		if k, err = c.a.newKey(b, c.settings, alg, hash, c.claim.Key, c.now); k == nil {
			return c.refuse("the decider has no room for another key: raise max_owned_keys"), err
		}
	}
	k.adopt(c.now, c.settings, name, c.a.gone)
	l, ok := k.state.(*lessor)
	if !ok || k.rule == nil {
		return c.refuse("the key's rule has just changed: ask again"), nil
	}
	k.expire(c.now, c.a.gone)
	if c.claim.Release {
		if l.account.Release(id) {
			c.a.hosts.add(id, -1)
		}
		return claims.Lease{}, nil
	}
	return c.lease(k, l, name, id), nil
}

func (c *claimant) lease(k *key, l *lessor, name string, id uint32) claims.Lease {
	known, learns := l.Knows(id), min(max(k.rule.Learning, 0), rpc.MaxLease)
	if c.claim.Keep && c.now >= l.learnsUntil() {
		// Whoever learns below has nothing to learn of but what was leased
		// before this.
		learns = min(max(l.account.Until(id)-c.now, 0), rpc.MaxLease)
	}
	if !known && l.Hosts() >= k.settings.maxHosts {
		c.a.metrics.noRoom.Inc(1)
		return c.refuse("the decider has no room for another host of this key: raise max_hosts_per_key")
	}
	var few [4]algorithm.Band
	capacity := k.limit(k.part(c.now)).Rate
	l.claim(c.now, k.recalculate(), capacity, id,
		algorithm.Claim{Has: c.claim.Has, Bands: bands(few[:0], c.claim.Bands), Keep: c.claim.Keep, Headroom: c.claim.Headroom})
	if !known {
		c.a.hosts.add(id, 1)
	}
	k.stir(c.now)
	return c.answer(k, l, name, capacity, learns)
}

// answer is what l has just granted.
func (c *claimant) answer(k *key, l *lessor, name string, capacity float64, learns time.Duration) claims.Lease {
	lasts := min(l.granted.Until-c.now, rpc.MaxLease)
	if lasts <= 0 {
		return c.refuse("the cluster above gives this one nothing to lease out: ask again")
	}
	return claims.Lease{
		Amount:    l.granted.Amount,
		Lasts:     lasts,
		Refresh:   min(k.soon(l.granted.Short && c.claim.Headroom), lasts),
		Learns:    learns,
		Safe:      c.safe(k, capacity),
		Algorithm: name,
		Learning:  l.granted.Learning || k.waits(),
	}
}

// safe is what the claimant may use when its lease has ended and nobody answers:
// for each client that it speaks for, what a host's fallback would be.
func (c *claimant) safe(k *key, capacity float64) float64 {
	clients := 0.0
	for _, b := range c.claim.Bands {
		clients += float64(b.Clients)
	}
	clients = max(clients, 1)
	switch {
	case k.rule.SafeCapacity > 0:
		return min(float64(k.rule.SafeCapacity)*clients, rpc.MaxAmount)
	case k.rule.Fallback == dynamicconfig.FallbackClosed:
		return 0
	case k.rule.Fallback == dynamicconfig.FallbackOpen:
		return capacity
	default:
		return capacity * min(clients/max(k.clients(), 1), 1)
	}
}

// unmatched is the answer about a key that no rule limits.
func (c *claimant) unmatched(bypassed bool) claims.Lease {
	c.a.metrics.unmatched.Inc(1)
	if !bypassed && c.settings.snapshot.Unmatched() == dynamicconfig.UnmatchedDeny {
		return c.refuse("no rule matches the key")
	}
	if c.claim.Release {
		return claims.Lease{Unknown: !bypassed}
	}
	wants := 0.0
	for _, b := range c.claim.Bands {
		wants += b.Wants
	}
	if c.claim.Keep {
		wants = c.claim.Has
	}
	return claims.Lease{Amount: wants, Lasts: unmatchedLease, Refresh: unmatchedLease / 4, Safe: wants, Unknown: !bypassed}
}

// unmatchedLease is for how long a key without a rule gets what it wants: until
// about when it should be asked whether there is a rule by now.
const unmatchedLease = time.Minute

func (c *claimant) refuse(format string, args ...any) claims.Lease {
	c.a.metrics.claimsRefused.Inc(1)
	why := fmt.Sprintf(format, args...)
	return claims.Lease{Refused: why[:min(len(why), rpc.MaxReasonLength)]}
}

// answering is the algorithm whose leases count: of a migration, the one that
// answers.
func answering(rule *dynamicconfig.Rule) string {
	m := rule.Migration
	switch {
	case m == nil:
		return rule.Algorithm
	case m.Mode == dynamicconfig.ModeNew || m.Mode == dynamicconfig.ModeNewShadowOld:
		return m.To
	default:
		return m.From
	}
}

func bypassed(rule *dynamicconfig.Rule) bool {
	return rule != nil && rule.Migration != nil && rule.Migration.Mode == dynamicconfig.ModeDisabled
}
