// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/exactbucket"
)

// asked is a pool that hosts may ask for the event at hand.
//
//	a host has tokens ──▶ it decides
//	it has too few ─────▶ it asks: the pool pays, and lends something beside it,
//	                      or says for how long it cannot
//
// There is nothing to switch between keys with many and with few events. A host gets
// a rate only for what it is sure to use until its next report; all else stays in
// the pool, for whichever host asks first. So a key of which each host uses a few
// events is decided by its owner alone, as one bucket decides.
//
// # How much can be too much
//
// Loans leave the pool at once. No token is lent twice: there are no
// starters, and rates are no more than the limit. So hosts that all report every
// interval T exceed one bucket, in any window, by at most what they may hold when it
// begins beside a full pool:
//
//   - Loans: at most mostLent·B. The pool fills up beside what a host has spent of its
//     loans, as it says when it asks. A host has one ask for a loan under way at a time.
//   - Saved rates: at most L·Horizon, or keep events for each host that has less. A
//     host with a rate has fewest events in T, so there are at most L·T/fewest of them;
//     and no more than 1.75·T of the limit.
//
// A host without a grant asks for each event, and adds nothing while its owner answers.
// An answer to a report that is lost adds what its host has left of the earlier loan. So
// does an ask that comes after a later report, with the loan that this report brought.
//
// Where hosts ask for each event, nothing is lent. What hosts still hold from before is
// out until they return it, or until its lease has ended.
type asked struct {
	Account
	bucket  exactbucket.Bucket // the pool, while somebody takes from it
	settled float64            // the pool when it was last the bucket
	rule    exactbucket.Rule   // as of the last report or take
	lease   time.Duration      // of a grant
	always  bool               // hosts ask for each event
	moved   bool               // the key had another owner lately
	handed  bool               // which handed it over
	out     float64            // the part of the limit that hosts held as rates then
	feared  float64            // tokens that Moved has taken out of the pool, because it did not
}

const (
	// lasts is for how long a loan is to last the host, in seconds. A longer time
	// means fewer asks, and more tokens at hosts that do not need them.
	lasts = 1

	// portion is the part of the pool that is lent, if all hosts ask. A larger one
	// means fewer asks. What a host does not use is missing elsewhere until the host
	// reports.
	portion = 0.3

	// sure is how many standard deviations less than its fair part a host gets as a
	// rate: a host that happens to have fewer events than usual would keep tokens
	// that others were refused.
	sure = 3

	// fewest is how many events a host's rate must allow until its next report. A
	// host with fewer asks.
	fewest = 5

	// few is how many events/s a host must want, to be lent tokens when it asks. A
	// host with fewer asks for each event: it would keep the tokens for too long.
	few = 3

	// busy is from how many events/s on a host is lent tokens with its grant, and asks
	// for many events at once when the pool is empty: for its part of what comes in,
	// pace times a second. A host with fewer events asks once its next events are
	// there.
	busy = 10
	pace = 5

	// small is the part of the burst, as 1 ÷ small, that a host of a key far from its
	// limit may be lent to last until its next report. Without such a loan, a host with
	// an event now and then asks for most of its events, while the pool is full.
	small = 100

	// slightest is the weight of a grant without a rate. It is too small for the sum
	// of weights to count it.
	slightest = 1. / (1 << 42)
)

var _ account.Bucketed = (*asked)(nil)

// Report implements account.Account.
func (k *asked) Report(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report) (account.Grant, bool) {
	if !k.begun() {
		k.begin(now, limit)
	}
	now = max(now, k.at)
	rule := k.rule
	rule.Rate, rule.Burst = limit.Rate, limit.Burst
	k.follow(now, rule)
	if r.Has > 0 && !k.Knows(host) {
		k.Moved(now)
	}
	if r.Elsewhere || k.always {
		k.hear(now, limit, host, r, k.always)
		return account.Grant{}, false
	}
	row, _ := k.receive(now, limit, host, r)
	row.heard = true
	k.bound(limit)
	if now < k.learns {
		k.listen(row, r)
		return account.Grant{}, false
	}
	return k.grant(row, limit, cost(limit, r)), true
}

// begin makes the pool of a key that is new here. It is full, and fills, unless hosts
// turn out to hold grants of an earlier owner.
func (k *asked) begin(now time.Duration, limit algorithm.Limit) {
	k.Account.begin(now, limit)
	k.pool = limit.Burst
}

// Moved implements account.Bucketed. The earlier owner may have lent as much as there
// is: half of the pool is left for what it lent and what it had.
func (k *asked) Moved(now time.Duration) {
	if !k.begun() || k.moved || k.handed || k.learns == fresh || seconds(now-k.since) > silence*seconds(k.interval) {
		return
	}
	k.moved = true
	k.feared = k.rule.Burst/2 + k.limit*seconds(min(now, k.learns)-k.since)
	k.pool -= k.feared
}

// Handed implements account.Bucketed. What was lent is not in what the earlier owner
// had left: so nothing is to be feared.
func (k *asked) Handed(now time.Duration, rates float64) bool {
	if !k.begun() || k.learns == fresh || seconds(now-k.since) > silence*seconds(k.interval) {
		return false
	}
	k.handed, k.out = true, upper(k.out, rates) // an owner before that one knows of less
	k.pool = lower(k.pool+k.feared, k.room(limitOf(k.rule)))
	k.feared = 0
	return true
}

// Rates implements account.Bucketed.
func (k *asked) Rates() float64 { return k.rates(1) }

// grant decides what row's host may do. All sums are without its grant.
func (k *asked) grant(row *row, limit algorithm.Limit, cost float64) account.Grant {
	p := k.params
	wants := float64(row.wants)
	fair := k.fair(wants, limit)
	rate := fair - sure*math.Sqrt(fair*cost/seconds(k.interval))
	if !(rate*seconds(k.interval) >= fewest*cost) {
		rate = 0
	}
	row.weight = upper(ratio(rate, limit.Rate), slightest)
	k.parts.Add(row.weight)

	row.lent = float32(k.loan(wants, rate, cost, busy, limit))
	row.unspent = row.lent
	lent := float64(row.lent)
	k.lent += lent
	k.pool -= lent
	return account.Grant{
		Weight: row.weight,
		Burst:  lower(lent+upper(rate*seconds(p.Horizon), keep*cost), upper(limit.Burst, 1)),
		Tokens: lower(lent, limit.Burst),
		Used:   fair,
	}
}

// loan is what a host that wants so much, and has this rate, is lent of the pool now;
// 0 if that is not worth an event, or if the host wants fewer than least events/s of a
// key that is not far from its limit.
func (k *holdings) loan(wants, rate, cost, least float64, limit algorithm.Limit) float64 {
	if !(wants > 0) {
		return 0
	}
	loan := upper(wants-rate, 0)*lasts + math.Sqrt(wants*lasts*cost)
	if need := k.need(wants, rate, cost); need <= limit.Burst/small && k.wants <= limit.Rate/2 && k.pool >= limit.Burst/2 {
		loan, least = upper(loan, need), 0
	}
	all := upper(k.wants, wants)
	loan = lower(loan, portion*upper(k.pool, 0)*wants/all)
	if wants >= busy*cost {
		inflow := wants / all * upper(limit.Rate-k.rates(limit.Rate), 0)
		loan = upper(loan, lower(inflow/pace, k.pool/2))
	}
	loan = lower(loan, mostLent*limit.Burst-k.lent)
	if loan < cost || wants < least*cost {
		return 0
	}
	return loan
}

// need is how many tokens a host that wants so much seldom exceeds until its next report,
// beside this rate: its demand and two standard deviations, and an event at least.
func (k *holdings) need(wants, rate, cost float64) float64 {
	lasting := upper(seconds(k.interval), lasts)
	return upper(upper(wants-rate, 0)*lasting+2*math.Sqrt(wants*lasting*cost), cost)
}

// follow brings the account up to now, under rule. It reports whether the bucket is
// the pool: then no fraction of a token is lost, however often the owner is asked.
func (k *asked) follow(now time.Duration, rule exactbucket.Rule) (whole bool) {
	whole = rule == k.rule && k.whole(now)
	before, since := k.rule, k.at
	k.rule = rule
	if rule.Rate != k.limit { // until now the earlier limit was in force
		k.advance(now, algorithm.Limit{Rate: k.limit, Burst: rule.Burst})
	}
	k.advance(now, limitOf(rule))
	if now < k.learns && (!k.moved || k.handed) {
		left := upper(1-upper(k.out, k.rates(1)), 0) // of the limit
		k.pool = lower(k.pool+left*rule.Rate*seconds(now-since), k.room(limitOf(rule)))
	}
	deepest := account.Deepest(k.terms, limitOf(rule))
	less := lower(rule.Rate/before.Rate, rule.Burst/before.Burst)
	if before.Rate == 0 { // it may have been any before that
		less = 0
	}
	if k.pool < deepest && rule.Rate > 0 && less < 1 {
		// A debt does not take longer to pay back because the limit is lower now.
		k.pool = upper(k.pool, lower(k.pool*less, deepest))
	}
	if whole {
		k.pool = k.bucket.Level(now)
		k.settled = k.pool
	}
	return whole
}

// whole reports whether the bucket has been the pool since it was last asked, and
// fills as the pool does: nothing is out.
func (k *asked) whole(now time.Duration) bool {
	return k.pool == k.settled && k.lent == 0 && k.rates(1) == 0 && (now >= k.learns || !k.moved && k.out == 0) &&
		k.bucket.Rate() == k.rule.Rate && k.bucket.Burst() == k.rule.Burst
}

// limitOf is what a bucket under rule holds.
func limitOf(rule exactbucket.Rule) algorithm.Limit {
	return algorithm.Limit{Rate: rule.Rate, Burst: rule.Burst}
}

// Bucket implements account.Bucketed.
func (k *asked) Bucket(now time.Duration, rule exactbucket.Rule) *exactbucket.Bucket {
	if !k.begun() {
		k.begin(now, limitOf(rule))
	}
	now = max(now, k.at)
	if k.follow(now, rule) {
		return &k.bucket
	}
	fill := upper(rule.Rate-k.rates(rule.Rate), 0)
	if rule.MaxDebt > 0 && fill > 0 {
		// As deep as if no host had a rate: else the largest events would never pass.
		// To pay the debt back, hosts get lower rates.
		rule.MaxDebt = time.Duration(lower(float64(rule.MaxDebt)*(rule.Rate/fill), math.MaxInt64/2))
	}
	rule.Rate = fill
	k.bucket = exactbucket.New(now, rule)
	k.bucket.Lower(now, k.pool)
	return &k.bucket
}

// Settle implements account.Bucketed.
func (k *asked) Settle(now time.Duration) {
	k.pool = k.bucket.Level(max(now, k.at))
	k.settled = k.pool
}

// Lend implements account.Bucketed. A host that asks has spent what it was lent
// before, but for what it holds. Its next report settles that; until then what is
// spent takes no room in the pool.
func (k *asked) Lend(now time.Duration, host uint32, most, holds, wants, cost float64) float64 {
	i := k.rows.Find(host)
	if i < 0 || now < k.learns || k.always {
		return 0
	}
	row := k.rows.At(i)
	if row.weight == 0 { // it was taken for dead: all that it held is lost
		row.last, row.back = now, true
		row.weight = slightest
		k.parts.Add(row.weight)
	}
	k.lent -= float64(row.unspent)
	row.unspent = float32(lower(float64(row.unspent), upper(holds, 0)))
	k.lent += float64(row.unspent)
	if wants > 0 {
		k.want(row, reasonable(wants, limitOf(k.rule)))
	}
	loan := float32(lower(k.loan(float64(row.wants), row.weight*k.limit, upper(cost, 1), few, limitOf(k.rule)), most))
	if !(loan >= 1) {
		return 0
	}
	row.lent += loan
	k.lent -= float64(row.unspent)
	row.unspent += loan
	k.lent += float64(row.unspent)
	k.pool -= float64(loan)
	return float64(loan)
}

// Patience implements account.Bucketed.
func (k *asked) Patience(host uint32, cost float64) time.Duration {
	i := k.rows.Find(host)
	if i < 0 || !(float64(k.rows.At(i).wants) >= busy*upper(cost, 1)) {
		return 0
	}
	return time.Duration(float64(time.Second) / pace)
}

// Expire implements account.Account. The limit is that of the last report or take.
func (k *asked) Expire(now time.Duration, gone func(host uint32)) {
	if !k.begun() {
		return
	}
	now = max(now, k.at)
	after := k.dead()
	if k.rule != (exactbucket.Rule{}) {
		k.follow(now, k.rule)
	}
	if k.always {
		after = max(after, k.lease)
	}
	k.expire(now, after, gone)
}
