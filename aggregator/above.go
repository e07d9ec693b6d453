// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
)

// above is what the cluster above has leased to this one, for one key.
type above struct {
	given  bool // there was a lease once
	heard  bool // and before it maybe what is safe
	amount float64
	safe   float64
	until  time.Duration
	fresh  time.Duration // as long as amount should be used without asking again
	askAt  time.Duration
	told   float64       // what k's hosts wanted when it was last asked
	early  time.Duration // not asked again before
	asked  bool          // the answer is under way
	keeps  time.Duration // until when it is not known what hosts want, of a key that is not leased
}

// capacity of k at now: the lease from above, or when it has ended what is safe.
// Before anybody has said what that is, it is what all who claim would take for
// safe by themselves.
func (k *key) capacity(now time.Duration) float64 {
	switch p := k.above; {
	case now < p.until:
		return p.amount
	case p.heard:
		return p.safe
	}
	return float64(k.rule.SafeCapacity) * k.clients()
}

// waits tells whether it is not known yet what a key's hosts share. Each of them
// goes on with what it had, or with its fallback. P is nil without a cluster above.
func (p *above) waits() bool { return p != nil && !p.given }

// children are the keys whose capacity comes from the cluster above.
type children struct {
	mu   sync.Mutex
	keys []child // protected by mu
}

// child is a key that has this above, and none any more when it has another.
type child struct {
	shard *shard
	key   *key
	above *above
}

// alive reports whether c has a cluster above. Its shard is locked.
func (c child) alive() bool { return c.key.above == c.above && c.key.rule != nil }

// raise gives k, which is in sh, a cluster above if its rule has one by now. When
// it has none any more, adopt takes it away.
func (a *Aggregator) raise(now time.Duration, sh *shard, k *key) {
	if k.rule == nil || !k.rule.Parent || k.above != nil {
		return
	}
	k.above = &above{askAt: now, keeps: now + k.settings.accounts.Interval}
	a.children.mu.Lock()
	defer a.children.mu.Unlock()

	a.children.keys = append(a.children.keys, child{sh, k, k.above})
}

// expire forgets children that are gone, or have no cluster above any more.
func (c *children) expire() {
	c.mu.Lock()
	all := slices.Clone(c.keys)
	c.mu.Unlock()
	gone := make(map[child]bool)
	for _, one := range all {
		one.shard.Lock(math.MinInt64)
		if !one.alive() {
			gone[one] = true
		}
		one.shard.Unlock()
	}
	if len(gone) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()

	c.keys = slices.DeleteFunc(c.keys, func(one child) bool { return gone[one] })
}

// Ask returns what to claim from the cluster above at now, on behalf of this
// cluster, which is called host there; nil if nothing is due. Answers go to
// Hear. A key that still learns only asks to keep what its hosts have: it does
// not know yet what they want.
func (a *Aggregator) Ask(now time.Duration, host string) *Asked {
	a.children.mu.Lock()
	all := slices.Clone(a.children.keys)
	a.children.mu.Unlock()
	asked := new(Asked)
	for _, c := range all {
		now := c.shard.Lock(now)
		if p := c.above; c.alive() && !p.asked && now >= p.askAt && len(asked.Claims.Rows) < rpc.MaxKeys {
			p.asked, p.told = true, c.key.wants()
			asked.Claims.Rows = append(asked.Claims.Rows, c.key.claim(now, host))
			asked.children = append(asked.children, c)
		}
		c.shard.Unlock()
	}
	if len(asked.children) == 0 {
		return nil
	}
	return asked
}

// Asked is what to claim from the cluster above.
type Asked struct {
	// Claims go to the owners of the keys there.
	Claims   claims.Claims
	children []child
}

// Hear takes in the answer to what was asked. Rows with an error, or refused,
// change nothing; they are asked again soon. So is all of an answer that does
// not hold to the contract: anyone may write a Claiming.
func (a *Aggregator) Hear(now time.Duration, asked *Asked, leases *claims.Leases, errs []error) {
	if err := asked.check(leases, errs); err != nil {
		a.metrics.refused.Inc(1)
		if others, ok := a.nonsense.next(Now(), refusalsEvery); ok {
			a.log.Warn("the answer of the cluster above is refused", "error", err, "refused_since_last_line", others)
		}
		leases = nil
	}
	for i, c := range asked.children {
		now := c.shard.Lock(now)
		if c.alive() {
			var lease claims.Lease
			if leases != nil && (errs == nil || errs[i] == nil) {
				lease = leases.Rows[i]
			}
			c.key.hear(now, asked.Claims.Rows[i].Keep, lease)
		}
		c.shard.Unlock()
	}
}

func (asked *Asked) check(leases *claims.Leases, errs []error) error {
	n := len(asked.children)
	switch {
	case errs != nil && len(errs) != n:
		return fmt.Errorf("%d errors for %d claims; give each its own or nil, or none at all", len(errs), n)
	case leases == nil:
		return nil
	}
	return leases.Check(n)
}

// again is after how long to ask again what was not answered.
const again = time.Second

// hear takes in the answer to a claim, which only asked to keep what there was
// if it kept.
func (k *key) hear(now time.Duration, kept bool, l claims.Lease) {
	p := k.above
	p.asked = false
	if l.Lasts == 0 { // no answer
		p.askAt = now + again
		return
	}
	p.heard, p.safe = true, l.Safe
	p.fresh = max(l.Refresh, minRefresh)
	p.askAt, p.early = now+p.fresh, now+p.fresh/4
	if leaser, ok := k.account.(account.Leaser); ok && kept {
		// No lease of an earlier owner outlives the one that it had from above.
		leaser.Learned(now + l.Learns)
	}
	switch nothing := l.Amount == 0; {
	case nothing && l.Learning:
		// Nothing was decided. What there is, is safe.
	case nothing && kept:
		p.keeps, p.askAt = now, now
	default:
		p.given, p.amount, p.until = true, l.Amount, now+l.Lasts
	}
}

// stir brings the next claim forward if what k's hosts want is no longer what was
// claimed: others may have it, or have some to spare.
func (k *key) stir(now time.Duration) {
	p := k.above
	if p == nil || p.asked || p.askAt <= p.early {
		return
	}
	if wants := k.wants(); math.Abs(wants-p.told) > stirring*max(wants, p.told) {
		p.askAt = max(now, p.early)
	}
}

// stirring is by which part wants have to change for a claim out of turn.
const stirring = 0.02

// wants is what all of k's hosts want.
func (k *key) wants() (sum float64) {
	for b := range k.account.Demand {
		sum += b.Wants
	}
	return sum
}

// minRefresh is the shortest time between two asks for a key.
const minRefresh = 100 * time.Millisecond

// claim is what the cluster, called host there, asks of the one above for k.
func (k *key) claim(now time.Duration, host string) claims.Claim {
	c := claims.Claim{Key: k.text, Host: host, Headroom: true}
	if now < k.above.until {
		c.Has = k.above.amount
	}
	leaser, leases := k.account.(account.Leaser)
	if leases {
		// Leases that hosts still hold are not free yet, although the capacity has shrunk.
		c.Has, c.Keep = max(c.Has, leaser.Leased()), leaser.Learns(now, false)
	} else {
		c.Keep = now < k.above.keeps
	}
	for b := range k.account.Demand {
		if !leases {
			b.Priority = k.rule.Priority
		}
		if len(c.Bands) < rpc.MaxBands && b.Wants > 0 {
			c.Bands = append(c.Bands, wireBand(b))
		}
	}
	c.Has = min(c.Has, rpc.MaxAmount)
	return c
}
