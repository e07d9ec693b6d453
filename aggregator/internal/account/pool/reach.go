// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/internal/rowset"
)

var _ account.Pooled = (*Account)(nil)

// Reach implements account.Pooled.
func (k *Account) Reach(now time.Duration, c *account.Config) account.Pooled {
	k.unheard(now)
	if c.Algorithm.Reach == algorithm.ReachNever {
		return k
	}
	a := &asked{Account: *k, moved: k.begun()}
	a.charge()
	a.reach(c)
	return a
}

// Reach implements account.Pooled. One bucket would have what the pool and the hosts
// have.
func (k *asked) Reach(now time.Duration, c *account.Config) account.Pooled {
	if k.rule != (exactbucket.Rule{}) {
		k.follow(max(now, k.at), k.rule)
	}
	k.unheard(now)
	if c.Algorithm.Reach != algorithm.ReachNever {
		k.reach(c)
		return k
	}
	a := k.Account // without the rest
	return &a
}

// charge takes starters out of the pool, because hosts that ask are lent nothing twice.
func (k *holdings) charge() {
	for _, row := range k.rows.All {
		starter := row.starter()
		row.lent += starter
		k.lent += float64(starter)
		k.pool -= float64(starter)
	}
	k.starters = 0
}

// reach takes in how hosts reach the pool under c.
func (k *asked) reach(c *account.Config) {
	k.always = c.Algorithm.Reach == algorithm.ReachAlways
	if c.Rule != nil {
		k.lease = c.Rule.Lease
	}
}

// unheard notes that hosts may not have heard yet of the algorithm that the key has
// from now on.
func (k *holdings) unheard(now time.Duration) {
	for _, row := range k.rows.All {
		row.heard = false
	}
	k.silent = min(k.silent, now)
}

// Configure implements account.Account.
func (k *asked) Configure(now time.Duration, c *account.Config) {
	k.Account.Configure(now, c)
	if c.Rule != nil {
		k.reach(c)
	}
}

// hear takes in a report of a host that is granted nothing: it names another algorithm
// than the key's rule, or the rule has hosts ask for each event. What the host has left
// of its loan stays out as long as it has a grant.
//
// A host that has heard of the rule says with its last report under the earlier one
// what it used before.
func (k *holdings) hear(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report, always bool) {
	had, weight, heard := 0.0, 0.0, false
	if i := k.rows.FindAt(k.found, host); i != rowset.None {
		row := k.rows.At(i)
		had, weight, heard = float64(row.lent), row.weight, row.heard
	}
	if heard && !always { // what it held is settled, and it has a grant of the rule's own
		k.pool = upper(k.pool-r.Allowed, lower(k.pool, account.Deepest(k.terms, limit)))
		return
	}
	row, saved := k.receive(now, limit, host, r)
	k.bound(limit)
	if heard {
		k.unwant(row)
	}
	if heard || !(r.Has > 0) {
		return
	}
	if always { // a host holds what it was granted here, whatever it says, until its lease ends
		r.Has = lower(r.Has, weight)
	}
	k.listen(row, r)
	if now >= k.learns {
		row.lent = float32(upper(lower(saved, had), 0))
		row.unspent = row.lent
		k.lent += float64(row.lent)
		k.pool -= float64(row.lent)
	}
}

// Returns implements account.Bucketed. Until the host's last report, all that it may
// have used is out.
func (k *asked) Returns(now time.Duration, host uint32) {
	i := k.rows.Find(host)
	if i < 0 || k.rows.At(i).heard {
		return
	}
	row := k.rows.At(i)
	row.heard = true
	passed := k.limit * seconds(now-row.last)
	if k.past != nil {
		passed = k.past.passed(row.last, now, k.limit)
	}
	row.lent += float32(row.weight * passed)
	k.parts.Sub(row.weight)
	row.weight = 0
	k.unwant(row)
}

// Draw implements account.Pooled.
func (k *Account) Draw(now time.Duration, rule exactbucket.Rule, f func(*exactbucket.Bucket)) {
	if !k.begun() {
		k.begin(now, limitOf(rule))
	}
	now = max(now, k.at)
	k.advance(now, limitOf(rule))
	rule.Rate = upper(rule.Rate-k.rates(rule.Rate), 0)
	b := exactbucket.New(now, rule)
	b.Lower(now, k.pool)
	f(&b)
	k.pool = b.Level(now)
}

// Draw implements account.Pooled.
func (k *asked) Draw(now time.Duration, rule exactbucket.Rule, f func(*exactbucket.Bucket)) {
	f(k.Bucket(now, rule))
	k.Settle(now)
}

// Refill implements account.Pooled.
func (k *Account) Refill(now time.Duration, rule exactbucket.Rule) {
	k.Draw(now, rule, k.full(now, rule))
}

// Refill implements account.Pooled.
func (k *asked) Refill(now time.Duration, rule exactbucket.Rule) {
	k.Draw(now, rule, k.full(now, rule))
}

// full makes a bucket as full as the pool can be.
func (k *Account) full(now time.Duration, rule exactbucket.Rule) func(*exactbucket.Bucket) {
	return func(b *exactbucket.Bucket) {
		b.Give(now, exactbucket.MaxTokens)
		b.Lower(now, k.room(limitOf(rule)))
	}
}

// Idle implements account.Pooled.
func (k *Account) Idle(now, lately time.Duration) bool { return !k.begun() || now-k.at > lately }
