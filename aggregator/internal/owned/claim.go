// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
)

// errNoNumber is a part that is not a number, or is below 0.
var errNoNumber = errors.New("the algorithm's part is below 0, or not a number")

// Refused is the answer to a claim that gets no lease.
func Refused(format string, args ...any) claims.Lease {
	why := fmt.Sprintf(format, args...)
	return claims.Lease{Refused: why[:min(len(why), rpc.MaxReasonLength)]}
}

// claimant is one claim under way, under the algorithm called name.
type claimant struct {
	*Keys

	now   time.Duration
	claim *claims.Claim
	name  string
	host  uint32
}

// Claim answers claim, about a key whose rule has the algorithm called name lease. The
// error says that the algorithm is to blame. A claim without room is refused.
func (ks *Keys) Claim(now time.Duration, s *rules.Settings, config *account.Config, name string, claim *claims.Claim) (lease claims.Lease, err error) {
	hash := ks.Table.Hash(claim.Key)
	sh := ks.Table.Shard(hash)
	host := ks.Hosts.Acquire(claim.Host)
	defer ks.Hosts.Add(host, -1)

	now = sh.Lock(now)
	defer sh.Unlock()
	defer rpc.Recovered(&err)

	if ks.Left.Load() {
		return Refused("the decider has handed its keys over and stops: ask the next owner"), nil
	}
	k, later := ks.Find(now, sh, s, name, hash, claim.Key)
	if k == nil {
		if later {
			return Refused("the key's rule has just changed: ask again"), nil
		}
		if claim.Release {
			return claims.Lease{}, nil
		}
		if k = ks.Make(now, sh, s, config, name, hash, claim.Key); k == nil {
			return Refused("the decider has no room for another key: raise max_owned_keys"), nil
		}
		if !claim.Keep {
			ks.Began(claim.Has > 0)
		}
	}
	ks.Keep(now, sh, k, s, name)
	l, ok := k.Account.(account.Leaser)
	if !ok || k.Rule == nil {
		return Refused("the key's rule has just changed: ask again"), nil
	}
	k.Account.Expire(now, ks.Hosts.Gone)
	if claim.Release {
		if l.Release(host) {
			ks.Hosts.Gone(host)
		}
		return claims.Lease{}, nil
	}
	c := claimant{ks, now, claim, name, host}
	return c.lease(k, l)
}

// lease is the answer of l, the account of k.
func (c *claimant) lease(k *Key, l account.Leaser) (claims.Lease, error) {
	known, learns := l.Knows(c.host), min(max(k.Rule.Learning, 0), rpc.MaxLease)
	if c.claim.Keep && !l.Learns(c.now, k.Above.Waits()) {
		// A cluster below that learns knows only what was leased
		// before this.
		learns = min(max(l.Until(c.host)-c.now, 0), rpc.MaxLease)
	}
	if !k.Room(c.now, c.host, c.Hosts.Gone) {
		c.NoRoom()
		return Refused("the decider has no room for another host of this key: raise max_hosts_per_key"), nil
	}
	if !known {
		defer func() { // after a panic of the weigher too
			if l.Knows(c.host) {
				c.Hosts.Add(c.host, 1)
			}
		}()
	}
	capacity := k.Limit(k.Part(c.now)).Rate
	terms := account.Terms{Lease: k.Above.Lasts(c.now, k.Rule.Lease), Recalculate: k.Recalculate(), Waits: k.Above.Waits()}
	granted := l.Claim(c.now, terms, capacity, c.host, *c.claim)
	k.Above.Stir(c.now)
	if granted.Invalid {
		return claims.Lease{}, errNoNumber
	}
	return c.answer(k, granted, capacity, learns), nil
}

// answer is what has just been granted.
func (c *claimant) answer(k *Key, granted account.Lease, capacity float64, learns time.Duration) claims.Lease {
	lasts := min(granted.Until-c.now, rpc.MaxLease)
	if lasts <= 0 {
		return Refused("the cluster above gives this one nothing to lease out: ask again")
	}
	return claims.Lease{
		Amount:    granted.Amount,
		Lasts:     lasts,
		Refresh:   min(k.soon(granted.Short && c.claim.Headroom), lasts),
		Learns:    learns,
		Safe:      c.safe(k, capacity),
		Algorithm: c.name,
		Learning:  granted.Learning || k.Above.Waits(),
	}
}

// safe is the capacity that the claimant may use when its lease has ended and no owner
// answers: for each client that it speaks for, the fallback of one host.
func (c *claimant) safe(k *Key, capacity float64) float64 {
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
