// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
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

// Expire implements account.Account.
func (u *asked) Expire(now time.Duration, gone func(host uint32)) {
	u.Bucketed.Expire(now, gone)
	if d := (now - u.since).Seconds(); d > 0.1 {
		u.wanted += (u.asked/d - u.wanted) / 2
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
func (u *asked) take(now time.Duration, k *key, t *usage.Take, by, host uint32) usage.Took {
	u.asked += max(t.Tokens, 0)
	limit := k.limit(k.part(now))
	rule := bucketRule(k.rule, limit)
	b := u.Bucket(now, rule)
	if !u.always && t.More > 0 && !u.Holds(host) { // it has a grant of another owner
		u.Moved(now)
		b = u.Bucket(now, rule)
	}
	cost := t.Tokens // serve changes it
	took := u.serve(now, b, t, by, account.Deepest(k.rule, limit))
	u.Settle(now)
	if u.always && !t.Auto {
		u.Returns(now, host)
	}
	if t.More > 0 && took.OK && took.Wait == 0 {
		took.Lent = u.Lend(now, host, t.More, k.rule.Burst-t.More, t.Wants, cost)
		took.Left -= took.Lent
	}
	if !took.OK && t.More > 0 {
		took.Retry = max(took.Retry, u.Patience(host, cost))
	}
	return took
}

// level is what is left for k at now, and whether nothing is missing. What hosts hold
// is not in it.
func (u *asked) level(now time.Duration, k *key) (tokens float64, full bool) {
	b := u.Bucket(now, bucketRule(k.rule, k.limit(k.part(now))))
	defer u.Settle(now)

	return b.Level(now), b.Full(now)
}

// keeps reports whether k's account is worth keeping at now though it knows no host:
// what was taken from it is not to come back at once, nor is a lease from above that
// is asked for to be lost. Without a rule, it is kept for as long as lately.
func (k *key) keeps(now, lately time.Duration) bool {
	switch u := k.account.(type) {
	case *asked:
		if k.rule == nil {
			return now-u.last <= lately
		}
		_, full := u.level(now, k)
		return !full || u.always && k.rule.Parent && u.wanted > 0
	case account.Pooled:
		return k.rule != nil && !u.Idle(now, lately)
	}
	return false
}
