// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/exactbucket"
)

// auto shares a limit as Account does while it is high enough for the hosts
// that use it, and else has the decider asked for each event, as one bucket.
//
//	split ──── too few events for each host ────▶ closing
//	  ▲                                              │ no host holds anything
//	  └─────── enough events for each host ──────── whole
//
// There is one account at any moment, so that a switch gives no host a second
// burst. In the split state it is the pool, and hosts without a grant may
// ask, and are paid out of it. In the closing state nothing is granted any more;
// what hosts hold is out until they say that it is gone, and the pool fills with
// what is left of the limit. In the whole state nothing is out: a bucket begins
// with what the pool held, and the next pool with what the bucket holds, debt
// included.
//
// A Grant of nothing (weight, burst and tokens are 0) says to a host: drop what
// you hold, and ask for each event. A host says by its weight of 0 that it holds
// nothing, so all other grants have a weight above 0.
//
// In the whole state the limit is exact. Otherwise, and over a switch, the bound
// is that of the pool.
type auto struct {
	Account

	state  autoState
	until  time.Duration      // no switch before, if the limit
	then   float64            // stays near to this, in events/s
	bucket exactbucket.Bucket // the account when it is whole, and while it is taken from
	rule   exactbucket.Rule   // of bucket, as of the last report or take
	debt   float64            // the pool's that takes made; the rest may be forgiven
}

const (
	// tooFew is below how many events per interval a host's part of the limit
	// is not worth a grant: a host cannot hold a half of an event, and what it
	// keeps for the next is not there for others.
	tooFew = 5

	// enough is above how many it is worth one again. Between the two, things
	// stay as they are.
	enough = 10

	// calm is how many intervals pass between two switches, unless the limit
	// doubles or halves: each takes up to two, and hosts that come and go must
	// not cause many.
	calm = 10

	// slightest is the least weight that says that a host holds something.
	slightest = 1. / (1 << 30)
)

// autoState says whether hosts or the owner decide.
type autoState uint8

const (
	split   autoState = iota // hosts, by their grants
	closing                  // no host gets a grant, and some hold one
	whole                    // the bucket
)

var _ account.Bucketed = (*auto)(nil)

// Report implements account.Account.
func (k *auto) Report(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report) (account.Grant, bool) {
	if !k.begun() {
		// Hosts that take the limit for too low ask at once. This one reports.
		k.begin(now, limit)
		k.until = now
	}
	now = max(now, k.at)
	rule := k.rule
	rule.Rate, rule.Burst = limit.Rate, limit.Burst
	k.follow(now, rule)
	before, weight := k.pool, k.weight(host)
	k.debt = min(k.debt, max(-before, 0))
	row, left, begins := k.receive(now, limit, host, r)
	if k.state == whole { // what was used was not out
		k.bucket.Charge(now, before-k.pool, -limit.Burst)
		k.pool = k.bucket.Level(now)
	}
	k.choose(now, limit)
	learns := now < k.learns
	switch {
	case learns, r.Elsewhere && k.state == split:
		k.listen(row, r)
	case k.state != split && r.Has > 0:
		k.hold(row, max(weight, r.Has), left)
	}
	if k.state == whole && row.weight > 0 {
		k.state = closing
		if learns { // an earlier owner split it
			k.until = min(k.until, k.learns)
		}
	}
	k.finish(now)
	if k.state != whole {
		k.pool = max(min(k.pool, k.room(limit)), -max(limit.Burst, k.debt))
	}
	switch {
	case learns, r.Elsewhere:
		return account.Grant{}, false
	case k.state != split:
		return account.Grant{}, true
	}
	return k.lend(row, k.grant(row, limit, begins, left, cost(limit, r))), true
}

// weight is the part of the limit that host holds.
func (k *auto) weight(host uint32) float64 {
	i := k.rows.Find(host)
	if i < 0 {
		return 0
	}
	return k.rows.At(i).weight
}

// lend is g, which row was granted, with a weight above 0.
func (k *auto) lend(row *row, g account.Grant) account.Grant {
	if g.Weight < slightest {
		k.parts.Sub(g.Weight)
		row.weight = slightest
		k.parts.Add(slightest)
		g.Weight = slightest
	}
	return g
}

// hold notes that row's host has a weight still, and what it had left of it.
func (k *auto) hold(row *row, weight, left float64) {
	row.weight, row.lent = weight, float32(max(left, 0))
	k.parts.Add(row.weight)
	k.lent += float64(row.lent)
	k.pool -= float64(row.lent)
}

// follow brings the account up to now, under rule. Then pool is what there is.
func (k *auto) follow(now time.Duration, rule exactbucket.Rule) {
	if rule.Rate <= k.then/2 || rule.Rate >= k.then*2 {
		k.until, k.then = min(k.until, now), rule.Rate
	}
	if rule.Rate != k.limit && k.state != whole {
		k.advance(now, algorithm.Limit{Rate: k.limit, Burst: rule.Burst})
	}
	if k.state != whole {
		if limitOf(rule) != limitOf(k.rule) {
			k.forgive(rule)
		}
		k.rule = rule
		k.advance(now, limitOf(rule))
		return
	}
	if rule != k.rule {
		k.rule = rule
		k.bucket.Follow(now, rule)
	}
	k.at, k.limit, k.pool = now, rule.Rate, k.bucket.Level(now)
	k.ideal = min(max(k.pool, 0), rule.Burst)
}

// forgive makes a debt of takes less in proportion when rule has a lower rate or
// burst than the rule before, as a Bucket does.
func (k *auto) forgive(rule exactbucket.Rule) {
	if less := min(rule.Rate/k.limit, rule.Burst/k.rule.Burst); less > 0 && less < 1 {
		k.debt = min(k.debt, max(k.debt*less, rule.Burst))
		k.pool = max(k.pool, -max(rule.Burst, k.debt))
	}
}

// choose switches between split and the rest, if it is time.
func (k *auto) choose(now time.Duration, limit algorithm.Limit) {
	part := limit.Rate * seconds(k.interval) / float64(max(k.users, 1))
	next := k.state
	switch {
	case now < k.learns || now < k.until:
	case k.state == split && part < tooFew:
		next = closing
	case k.state != split && part > enough:
		next = split
	}
	if next != k.state {
		if k.state == whole {
			k.debt = max(-k.pool, 0)
		}
		k.state, k.until, k.then = next, now+calm*k.interval, limit.Rate
	}
}

// finish makes the account whole when no host holds anything any more.
func (k *auto) finish(now time.Duration) {
	if k.state == closing && now >= k.learns && !k.out() {
		k.state, k.bucket = whole, k.open(now, k.rule)
		k.pool = k.bucket.Level(now)
	}
}

// out reports whether any host holds anything: none holds tokens alone.
func (k *auto) out() bool { return k.parts != 0 }

// limitOf is what a bucket under rule holds.
func limitOf(rule exactbucket.Rule) algorithm.Limit {
	return algorithm.Limit{Rate: rule.Rate, Burst: rule.Burst}
}

// open is a bucket with what is in the pool.
func (k *auto) open(now time.Duration, rule exactbucket.Rule) exactbucket.Bucket {
	b := exactbucket.New(now, rule)
	b.Lower(now, k.pool)
	return b
}

// Bucket implements account.Bucketed.
func (k *auto) Bucket(now time.Duration, rule exactbucket.Rule) *exactbucket.Bucket {
	if !k.begun() {
		// A host that asks takes the limit for too low. All others have an interval
		// to say that they use it too.
		k.begin(now, limitOf(rule))
		k.state, k.until, k.then = whole, now+k.interval, rule.Rate
		k.rule, k.bucket = rule, exactbucket.New(now, rule)
	}
	now = max(now, k.at)
	k.follow(now, rule)
	if k.state != whole {
		rule.Rate = max(rule.Rate-k.rates(rule.Rate), 0)
		k.bucket = k.open(now, rule)
	}
	return &k.bucket
}

// Settle implements account.Bucketed.
func (k *auto) Settle(now time.Duration) {
	level := k.bucket.Level(max(now, k.at))
	k.ideal = min(max(k.ideal+level-k.pool, 0), k.rule.Burst)
	k.pool, k.debt = level, max(-level, 0)
}

// Expire implements account.Account. The limit is that of the last report or take.
func (k *auto) Expire(now time.Duration, gone func(host uint32)) {
	if !k.begun() {
		return
	}
	now = max(now, k.at)
	k.follow(now, k.rule)
	k.Account.Expire(now, gone)
	k.finish(now)
}
