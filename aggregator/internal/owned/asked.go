// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc/usage"
)

// asked is the account of a key whose hosts ask for tokens: for each event, or for
// what they do not hold.
type asked struct {
	account.Bucketed
	learned
	always bool // hosts ask for each event

	asked  float64       // tokens, since
	since  time.Duration // the last look at
	wanted float64       // how many are asked for lately, per second
}

// newAsked is the account of a key that hosts ask for from now on.
func newAsked(now time.Duration, b account.Bucketed, always bool) *asked {
	return &asked{Bucketed: b, learned: newLearned(now), always: always, since: now}
}

// slightest is the demand, in tokens/s, below which nothing is wanted any more. Demand that has
// ended is halved with each look at it, and would never become 0.
const slightest = 1e-3

// Expire implements account.Account.
func (u *asked) Expire(now time.Duration, gone func(host uint32)) {
	u.Bucketed.Expire(now, gone)
	if d := (now - u.since).Seconds(); d > 0.1 {
		if u.wanted += (u.asked/d - u.wanted) / 2; u.wanted < slightest {
			u.wanted = 0
		}
		u.asked, u.since = 0, now
	}
}

// Demand implements account.Account. Hosts that ask for each event do not report what
// they want: what they asked for lately counts.
func (u *asked) Demand(yield func(account.Band) bool) {
	for b := range u.Bucketed.Demand {
		if u.always {
			b.Clients = max(b.Clients, 1)
			b.Wants += u.wanted
		}
		yield(b)
	}
}

// take serves t, of key k, for the owner whose number is by, and asked by host. The
// Tokens of t become what was taken.
func (u *asked) take(now time.Duration, k *Key, t *usage.Take, by, host uint32) usage.Took {
	u.asked += min(max(t.Tokens, 0), k.Rule.MostDebt()) // more can never be taken
	limit := k.Limit(k.Part(now))
	rule := bucketRule(k.Rule, limit)
	b := u.Bucket(now, rule)
	apart := false
	if t.Handed {
		apart = u.Handed(now, t.Rates)
		b = u.Bucket(now, rule)
	}
	if !u.always && t.More > 0 && !u.Knows(host) { // it has a grant of another owner
		u.Moved(now)
		b = u.Bucket(now, rule)
	}
	cost := t.Tokens // serve changes it
	took := u.serve(now, b, t, by, account.Deepest(k.Rule, limit), apart)
	u.Settle(now)
	if u.always && !t.Auto {
		u.Returns(now, host)
	}
	if t.More > 0 && took.OK && took.Wait == 0 {
		took.Lent = u.Lend(now, host, t.More, k.Rule.Burst-t.More, t.Wants, cost)
		took.Left -= took.Lent
	}
	if !took.OK && t.More > 0 {
		took.Retry = max(took.Retry, u.Patience(host, cost))
	}
	return took
}

// level returns the tokens in k's bucket at now, and whether it is full. Tokens that hosts
// hold are not in it.
func (u *asked) level(now time.Duration, k *Key) (tokens float64, full bool) {
	b := u.Bucket(now, bucketRule(k.Rule, k.Limit(k.Part(now))))
	defer u.Settle(now)

	return b.Level(now), b.Full(now)
}

// left returns the level of k's bucket at now as a take of no tokens, from which another
// owner learns it; false if k keeps no bucket, or if the bucket is full and no host holds
// anything.
func (k *Key) left(now time.Duration) (row usage.Take, ok bool) {
	u, ok := k.Account.(*asked)
	if !ok || k.Rule == nil {
		return row, false
	}
	tokens, full := u.level(now, k)
	return usage.Take{Key: k.text, Auto: !u.always, Told: tokens, Handed: true, Rates: min(u.Rates(), 1)}, !full || u.Hosts() > 0
}

// Take serves t, of k, for the owner whose number is by, and asked by host. The Tokens
// of t become what was taken.
func (k *Key) Take(now time.Duration, t *usage.Take, by, host uint32) (took usage.Took) {
	switch u := k.Account.(type) {
	case *asked:
		return u.take(now, k, t, by, host)
	case account.Pooled: // the host has not heard that it need not ask
		limit, l := k.Limit(k.Part(now)), newLearned(now)
		u.Draw(now, bucketRule(k.Rule, limit), func(b *exactbucket.Bucket) {
			took = l.serve(now, b, t, by, account.Deepest(k.Rule, limit), false)
		})
		return took
	}
	t.Tokens = 0
	return took
}

// Refill makes the bucket of k as full as it can be beside what is lent, and forgives its
// debts. It does nothing to accounts without a bucket.
func (k *Key) Refill(now time.Duration) {
	if u, ok := k.Account.(account.Pooled); ok && k.Rule != nil {
		u.Refill(now, bucketRule(k.Rule, k.Limit(k.Part(now))))
	}
}

// Keeps reports whether k's account is worth keeping at now though it knows no host:
// what was taken from it is not to come back at once, nor is a lease from above that
// is asked for to be lost. Without a rule, it is kept for as long as lately.
func (k *Key) Keeps(now, lately time.Duration) bool {
	switch u := k.Account.(type) {
	case *asked:
		if k.Rule == nil {
			return now-u.last <= lately
		}
		tokens, full := u.level(now, k)
		if wants, _ := account.Wanted(u); wants == 0 && k.Above != nil {
			// The cluster above gives next to nothing to a key without demand: what counts
			// is the rule's limit, under which no debt is deeper than this.
			full = full || max(tokens, -k.Rule.MostDebt())+float64(k.Rule.Limit)*(now-u.last).Seconds() >= k.Rule.Burst
		}
		return !full || u.always && k.Rule.Parent && u.asked+u.wanted > 0
	case account.Pooled:
		return k.Rule != nil && !u.Idle(now, lately)
	}
	return false
}

// Reach has hosts reach k's pool as c says.
func (k *Key) Reach(now time.Duration, c *account.Config) {
	u, wraps := k.Account.(*asked)
	held, _ := k.Account.(account.Pooled) // all of rules.Pooled are
	if wraps {
		held = u.Bucketed
	}
	held = held.Reach(now, c)
	switch b, ok := held.(account.Bucketed); {
	case !ok:
		k.Account = held
	case wraps:
		u.Bucketed, u.always = b, c.Algorithm.Reach == algorithm.ReachAlways
	default:
		k.Account = newAsked(now, b, c.Algorithm.Reach == algorithm.ReachAlways)
	}
	k.Above.Becomes(k.Account)
}
