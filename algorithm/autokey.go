// SPDX-License-Identifier: Apache-2.0

package algorithm

import "time"

// autoKey is a key under Auto. Its pool is the account unless it is whole.
type autoKey struct {
	elasticKey

	state  autoState
	until  time.Duration // no switch before, if the limit
	then   float64       // stays near to this, in events/s
	bucket Bucket        // the account when it is whole, and while it is taken from
	rule   BucketRule    // of bucket, as of the last report or take
	debt   float64       // the pool's that takes made; the rest may be forgiven
}

// autoState is who decides.
type autoState uint8

const (
	split   autoState = iota // hosts, by their grants
	closing                  // nobody gets a grant, and some hold one
	whole                    // the bucket
)

var _ Bucketed = (*autoKey)(nil)

// Report implements Key.
func (k *autoKey) Report(now time.Duration, limit Limit, host uint32, r *Report) (Grant, bool) {
	if !k.begun() {
		// Hosts that take the limit for too low ask at once. This one reports.
		k.begin(now, limit)
		k.until = now
	}
	now = max(now, k.at)
	rule := k.rule
	rule.Limit = limit
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
		return Grant{}, false
	case k.state != split:
		return Grant{}, true
	}
	return k.lend(row, k.grant(row, limit, begins, left, cost(limit, r))), true
}

// weight is the part of the limit that host holds.
func (k *autoKey) weight(host uint32) float64 {
	i := k.rows.Find(host)
	if i < 0 {
		return 0
	}
	return k.rows.At(i).weight
}

// lend is g, which row was granted, with a weight above 0.
func (k *autoKey) lend(row *elasticRow, g Grant) Grant {
	if g.Weight < slightest {
		k.parts.Sub(g.Weight)
		row.weight = slightest
		k.parts.Add(slightest)
		g.Weight = slightest
	}
	return g
}

// hold notes that row's host has a weight still, and what it had left of it.
func (k *autoKey) hold(row *elasticRow, weight, left float64) {
	row.weight, row.lent = weight, float32(max(left, 0))
	k.parts.Add(row.weight)
	k.lent += float64(row.lent)
	k.pool -= float64(row.lent)
}

// follow brings the account up to now, under rule. Then pool is what there is.
func (k *autoKey) follow(now time.Duration, rule BucketRule) {
	if rule.Rate <= k.then/2 || rule.Rate >= k.then*2 {
		k.until, k.then = min(k.until, now), rule.Rate
	}
	if rule.Rate != k.limit && k.state != whole {
		k.advance(now, Limit{Rate: k.limit, Burst: rule.Burst})
	}
	if k.state != whole {
		if rule.Limit != k.rule.Limit {
			k.forgive(rule)
		}
		k.rule = rule
		k.advance(now, rule.Limit)
		return
	}
	if rule != k.rule {
		k.rule = rule
		k.bucket.Rule(now, rule)
	}
	k.at, k.limit, k.pool = now, rule.Rate, k.bucket.Level(now)
	k.ideal = min(max(k.pool, 0), rule.Burst)
}

// forgive makes a debt of takes less in proportion when rule has a lower rate or
// burst than the rule before: as Bucket's Rule does.
func (k *autoKey) forgive(rule BucketRule) {
	if less := min(rule.Rate/k.limit, rule.Burst/k.rule.Burst); less > 0 && less < 1 {
		k.debt = min(k.debt, max(k.debt*less, rule.Burst))
		k.pool = max(k.pool, -max(rule.Burst, k.debt))
	}
}

// choose switches between split and the rest, if it is time.
func (k *autoKey) choose(now time.Duration, limit Limit) {
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

// finish makes the account whole when nobody holds anything any more.
func (k *autoKey) finish(now time.Duration) {
	if k.state == closing && now >= k.learns && !k.out() {
		k.state, k.bucket = whole, k.open(now, k.rule)
		k.pool = k.bucket.Level(now)
	}
}

// out reports whether any host holds anything: none holds tokens alone.
func (k *autoKey) out() bool { return k.parts != 0 }

// open is a bucket with what is in the pool.
func (k *autoKey) open(now time.Duration, rule BucketRule) Bucket {
	b := NewBucket(now, rule)
	b.Lower(now, k.pool)
	return b
}

// Bucket implements Bucketed.
func (k *autoKey) Bucket(now time.Duration, rule BucketRule) *Bucket {
	if !k.begun() {
		// Whoever asks takes the limit for too low. All others have an interval
		// to say that they use it too.
		k.begin(now, rule.Limit)
		k.state, k.until, k.then = whole, now+k.interval, rule.Rate
		k.rule, k.bucket = rule, NewBucket(now, rule)
	}
	now = max(now, k.at)
	k.follow(now, rule)
	if k.state != whole {
		rule.Rate = max(rule.Rate-k.rates(rule.Rate), 0)
		k.bucket = k.open(now, rule)
	}
	return &k.bucket
}

// Settle implements Bucketed.
func (k *autoKey) Settle(now time.Duration) {
	level := k.bucket.Level(max(now, k.at))
	k.ideal = min(max(k.ideal+level-k.pool, 0), k.rule.Burst)
	k.pool, k.debt = level, max(-level, 0)
}

// Expire implements Key. The limit is that of the last report or take.
func (k *autoKey) Expire(now time.Duration, gone func(host uint32)) {
	if !k.begun() {
		return
	}
	now = max(now, k.at)
	k.follow(now, k.rule)
	k.elasticKey.Expire(now, gone)
	k.finish(now)
}
