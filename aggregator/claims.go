// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/internal/rules"
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
	settings *rules.Settings
	claim    *claims.Claim
}

func (c *claimant) ask() claims.Lease {
	rule, ok := c.settings.Snapshot.Match(c.claim.Key)
	if !ok || rules.Bypassed(rule) {
		return c.unmatched(ok)
	}
	name := c.settings.Answering(rule)
	config, err := c.settings.Config(rule, name)
	if errors.Is(err, algorithm.ErrParameter) {
		c.a.blame(c.now, name, c.claim.Key, err)
		return c.refuse("the key's rule has parameters that its algorithm %s does not take", name)
	}
	if err != nil || config.Algorithm.Account != algorithm.AccountClaims { // the registry may not have it, which is no failure
		return c.refuse("the key's algorithm %s hands out no leases: use none, static, proportional-share or fair-share", name)
	}
	hash := c.a.table.Hash(c.claim.Key)
	sh := c.a.table.Shard(hash)
	id := c.a.hosts.Acquire(c.claim.Host)
	defer c.a.hosts.Add(id, -1)

	lease, err := c.under(sh, name, config, hash, id)
	if err != nil {
		c.a.blame(c.now, name, c.claim.Key, err)
	}
	return lease
}

// under is the claim as host id, in sh. The error says that the algorithm is to
// blame.
func (c *claimant) under(sh *shard, name string, config *account.Config, hash uint64, id uint32) (lease claims.Lease, err error) {
	c.now = sh.Lock(c.now)
	defer sh.Unlock()
	defer rpc.Recovered(&err)

	b := sh.Book(name)
	k := b.Find(hash, c.claim.Key)
	if k == nil {
		if c.claim.Release {
			return claims.Lease{}, nil
		}
		if k, err = c.a.newKey(b, c.settings, config, hash, c.claim.Key, c.now); k == nil {
			return c.refuse("the decider has no room for another key: raise max_owned_keys"), err
		}
	}
	k.Adopt(c.now, c.settings, name)
	l, ok := k.Account.(account.Leaser)
	if !ok || k.Rule == nil {
		return c.refuse("the key's rule has just changed: ask again"), nil
	}
	k.Account.Expire(c.now, c.a.hosts.Gone)
	if c.claim.Release {
		if l.Release(id) {
			c.a.hosts.Add(id, -1)
		}
		return claims.Lease{}, nil
	}
	return c.lease(k, l, name, id)
}

func (c *claimant) lease(k *owned.Key, l account.Leaser, name string, id uint32) (claims.Lease, error) {
	known, learns := l.Knows(id), min(max(k.Rule.Learning, 0), rpc.MaxLease)
	if c.claim.Keep && !l.Learns(c.now, k.Above.Waits()) {
		// A cluster below that learns knows only what was leased
		// before this.
		learns = min(max(l.Until(id)-c.now, 0), rpc.MaxLease)
	}
	if !k.Room(c.now, id, c.a.hosts.Gone) {
		c.a.metrics.noRoom.Inc(1)
		return c.refuse("the decider has no room for another host of this key: raise max_hosts_per_key"), nil
	}
	if !known {
		defer func() { // after a panic of the weigher too
			if l.Knows(id) {
				c.a.hosts.Add(id, 1)
			}
		}()
	}
	var few [4]account.Band
	capacity := k.Limit(k.Part(c.now)).Rate
	granted := l.Claim(c.now, account.Terms{Lease: k.Above.Lasts(c.now, k.Rule.Lease), Recalculate: k.Recalculate(), Waits: k.Above.Waits()}, capacity, id,
		account.Claim{Has: c.claim.Has, Bands: bands(few[:0], c.claim.Bands), Keep: c.claim.Keep, Headroom: c.claim.Headroom})
	k.Above.Stir(c.now)
	if granted.Invalid {
		return c.refuse("the weigher of %s made no number of this host's part", name), invalidGrant(account.Grant{Weight: -1})
	}
	return c.answer(k, granted, name, capacity, learns), nil
}

// answer is what has just been granted.
func (c *claimant) answer(k *owned.Key, granted account.Lease, name string, capacity float64, learns time.Duration) claims.Lease {
	lasts := min(granted.Until-c.now, rpc.MaxLease)
	if lasts <= 0 {
		return c.refuse("the cluster above gives this one nothing to lease out: ask again")
	}
	return claims.Lease{
		Amount:    granted.Amount,
		Lasts:     lasts,
		Refresh:   min(k.Soon(granted.Short && c.claim.Headroom), lasts),
		Learns:    learns,
		Safe:      c.safe(k, capacity),
		Algorithm: name,
		Learning:  granted.Learning || k.Above.Waits(),
	}
}

// safe is what the claimant may use when its lease has ended and nobody answers:
// for each client that it speaks for, what a host's fallback would be.
func (c *claimant) safe(k *owned.Key, capacity float64) float64 {
	clients := 0.0
	for _, b := range c.claim.Bands {
		clients += float64(b.Clients)
	}
	clients = max(clients, 1)
	switch {
	case k.Rule.SafeCapacity > 0:
		return min(float64(k.Rule.SafeCapacity)*clients, rpc.MaxAmount)
	case k.Rule.Fallback == dynamicconfig.FallbackClosed:
		return 0
	case k.Rule.Fallback == dynamicconfig.FallbackOpen:
		return capacity
	default:
		_, all := account.Wanted(k.Account)
		return capacity * min(clients/max(all, 1), 1)
	}
}

// bands of c, for accounts.
func bands(to []account.Band, from []claims.Band) []account.Band {
	for _, b := range from {
		to = append(to, account.Band{Priority: b.Priority, Clients: b.Clients, Wants: b.Wants})
	}
	return to
}

// unmatched is the answer about a key that no rule limits.
func (c *claimant) unmatched(bypassed bool) claims.Lease {
	c.a.metrics.unmatched.Inc(1)
	if !bypassed && c.settings.Snapshot.Unmatched() == dynamicconfig.UnmatchedDeny {
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
