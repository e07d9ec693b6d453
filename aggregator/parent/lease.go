// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"math"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
)

// Lease is what the cluster above has leased to this one, for one key. The lock of the
// key guards it. A nil Lease is that of a key without a cluster above.
type Lease struct {
	Key

	turn

	rule     *dynamicconfig.Rule // nil: the key is gone, or has no cluster above any more
	shadow   bool                // another account of the key answers, and claims for both
	given    bool                // the cluster above has leased an amount at least once
	answered bool                // the cluster above has answered, maybe without a lease: safe is known
	amount   float64             // leased, for the time before until
	safe     float64             // what this cluster may use without a lease
	until    time.Duration
	fresh    time.Duration // as long as amount should be used without asking again
	claimed  float64       // what the key's hosts wanted when it was last asked
	asked    bool          // the answer is under way
	most     float64       // the most tokens that were asked for at once

	// Until keeps, the hosts of the key may not all have reported what they want, and
	// claims only ask to keep what the hosts have. An account that is a Leaser says that
	// itself (Learns), and keeps does not count.
	keeps time.Duration
}

// turn is when a Lease is claimed next. The lock of the key guards it, but for place.
type turn struct {
	of     *Client
	number uint64        // the order in which leases are claimed together
	place  int           // in the agenda of the Client, which guards it, from 1 on; 0: it is not there
	askAt  time.Duration // when it is claimed
	early  time.Duration // not before that, whatever its hosts want
}

// Key is a key whose capacity comes from the cluster above. All but its Account do not change.
type Key struct {
	Text    string
	Account account.Account
	Lock    Locker // guards the key

	// Leased is called with the lock held when another amount may be leased from now on.
	Leased func(now time.Duration)
}

// Locker locks a key for what happens at now. Lock returns now, or the time of what had
// the lock before if that is later.
type Locker interface {
	Lock(now time.Duration) time.Duration
	Unlock()
}

// Follow puts rule in force, and returns l; nil, and l ends, if rule is nil or has no
// parent. Shadow says that another account of the key answers.
func (l *Lease) Follow(rule *dynamicconfig.Rule, shadow bool) *Lease {
	if l == nil {
		return nil
	}
	if rule == nil || !rule.Parent {
		l.rule = nil
		l.of.end(l)
		return nil
	}
	if l.shadow && !shadow {
		l.of.look(l, l.askAt)
	}
	l.rule, l.shadow = rule, shadow
	return l
}

// Becomes says that another account goes on with what the key's account had.
func (l *Lease) Becomes(a account.Account) {
	if l != nil {
		l.Account = a
	}
}

// Waits reports whether it is not known yet what the key's hosts share. Each of them
// goes on with what it had, or with its fallback.
func (l *Lease) Waits() bool { return l != nil && !l.given }

// Part is the part of its rule's limit that the key's hosts share at now, in [0, 1].
func (l *Lease) Part(now time.Duration) float64 {
	if l == nil {
		return 1
	}
	if limit := float64(l.rule.Limit); limit > 0 {
		return min(l.capacity(now)/limit, 1)
	}
	return 0
}

// Costs notes that a host asks for so many tokens at once, unless these are more than any event gets.
func (l *Lease) Costs(tokens float64) {
	if l != nil && tokens > l.most && tokens <= l.rule.Costliest() {
		l.most = tokens
	}
}

// Burst is the burst that the key's hosts have at least, if they share anything: two of the largest
// events that they have asked for, as chance has events come. In a split alone, it is one token.
func (l *Lease) Burst() float64 {
	if l == nil {
		return 1
	}
	return 2 * max(l.most, 1)
}

// capacity is the lease from above, or when it has ended what is safe. Before the
// cluster above has said what that is, it is what all who claim would take for safe by
// themselves.
func (l *Lease) capacity(now time.Duration) float64 {
	switch {
	case now < l.until:
		return l.amount
	case l.answered:
		return l.safe
	}
	_, clients := account.Wanted(l.Account)
	return float64(l.rule.SafeCapacity) * clients
}

// Lasts is for how long to lease at now what may be leased for longest: no longer than
// the cluster above does.
func (l *Lease) Lasts(now, longest time.Duration) time.Duration {
	if l == nil || now >= l.until {
		return longest // what is safe is so for ever
	}
	return min(longest, l.until-now)
}

// Refresh is after how long hosts ask again that the rule lets ask after refresh: in
// half the time from level to level.
func (l *Lease) Refresh(refresh time.Duration) time.Duration {
	switch {
	case l == nil:
		return refresh
	case !l.given:
		return min(refresh, again)
	}
	return max(min(refresh, l.fresh/2), MinRefresh)
}

// Recalculate is after how long asking again may change the answer, which is after
// recalculate by the rule: at the latest when it is time to ask again.
func (l *Lease) Recalculate(recalculate, refresh time.Duration) time.Duration {
	switch {
	case l == nil:
		return recalculate
	case !l.given:
		return 0
	}
	return min(recalculate, l.Refresh(refresh))
}

// Stir brings the next claim forward if what the key's hosts want is no longer what was
// claimed: others may have it, or have some to spare.
func (l *Lease) Stir(now time.Duration) {
	if l == nil || l.askAt <= l.early {
		return
	}
	wants, _ := account.Wanted(l.Account)
	_, pool := l.Account.(account.Pooled)
	if wants < l.claimed && pool && l.claimed <= little*float64(l.rule.Limit) {
		return
	}
	if math.Abs(wants-l.claimed) > stirring*max(wants, l.claimed) {
		l.askAt = max(now, l.early)
		l.of.look(l, l.askAt)
	}
}

// stirring is by which part wants have to change for a claim out of turn.
const stirring = 0.02

// little is the part of the limit that other clusters hardly miss. The demand of a pool that was no
// more than that and falls is no reason for a claim out of turn.
const little = 0.01

// wants is what to claim. A pool may have few events, and no host wants anything between two of
// them. So the claims for it fall by a quarter at a time at most: else the lease would bring less
// than the next event costs. Where hosts report what they want, that goes for a little demand.
func (l *Lease) wants() float64 {
	wants, _ := account.Wanted(l.Account)
	p, ok := l.Account.(account.Pooled)
	least := l.claimed * 3 / 4
	if ok && p.Reached() == algorithm.ReachNever {
		least = min(least, little*float64(l.rule.Limit))
	}
	if ok && wants < least && least >= account.Idle {
		return least
	}
	return wants
}

// claims reports whether l claims once askAt has come. Of two accounts of a key, the one that
// answers does: the cluster above has one claimant of a key in this cluster.
func (l *Lease) claims() bool { return l.rule != nil && !l.shadow && !l.asked }

// claim returns the claim of this cluster for the key. The cluster above knows this
// cluster as host. While the owner does not know yet what the key's hosts want, the claim
// only asks to keep what they have.
func (l *Lease) claim(now time.Duration, host string) claims.Claim {
	l.asked = true
	l.claimed = l.wants()
	c := claims.Claim{Key: l.Text, Host: host, Headroom: true}
	if now < l.until {
		c.Has = l.amount
	}
	leaser, leases := l.Account.(account.Leaser)
	if leases {
		// Leases that hosts still hold are not free yet, although the capacity has shrunk.
		c.Has, c.Keep = max(c.Has, leaser.Leased()), leaser.Learns(now, false)
	} else {
		c.Keep = now < l.keeps
	}
	for b := range l.Account.Demand {
		if !leases {
			b.Priority, b.Wants = l.rule.Priority, l.claimed
		}
		if len(c.Bands) < rpc.MaxBands && b.Wants > 0 {
			Bound(&b)
			c.Bands = append(c.Bands, b)
		}
	}
	c.Has = min(c.Has, rpc.MaxAmount)
	return c
}

// apply puts the answer to a claim of that time in force, of this account or of the one that
// answers. Kept says that the claim only asked to keep what the hosts have.
func (l *Lease) apply(now, since time.Duration, kept bool, answer claims.Lease) {
	l.asked = false
	if answer.Lasts == 0 { // no answer
		l.askAt = now + again
		return
	}
	l.answered, l.safe = true, answer.Safe
	l.fresh = max(answer.Refresh, MinRefresh)
	l.askAt, l.early = now+l.fresh, now+l.fresh/4
	leaser, leases := l.Account.(account.Leaser)
	if leases && kept {
		// No lease of an earlier owner outlives the one that it had from above.
		leaser.Learned(now + answer.Learns)
	}
	switch nothing := answer.Amount == 0; {
	case nothing && answer.Learning:
		// Nothing was decided. What there is, is safe.
	case nothing && !leases && !l.given && l.claimed == 0:
		// Nothing was wanted, and so nothing was decided. Stir asks once something is.
		l.early = now
	case nothing && kept:
		l.keeps, l.askAt = now, now
	default:
		// The cluster above counts the lease from its answer, so it ends there no earlier than here.
		l.given, l.amount, l.until = true, answer.Amount, since+answer.Lasts
	}
}

// Bound has b within the bounds of the wire.
func Bound(b *claims.Band) {
	b.Clients, b.Wants = min(max(b.Clients, 1), rpc.MaxCount), min(b.Wants, rpc.MaxAmount)
}
