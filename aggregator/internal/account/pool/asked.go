// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"math"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/account/learned"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/internal/sum"
)

// asked is a pool that hosts may ask for the event at hand.
//
//	a host has tokens ──▶ it decides
//	it has too few ─────▶ it asks: the pool pays, and lends something beside it,
//	                      or says for how long it cannot
//
// There is nothing to switch between keys with many and with few events. A host gets a rate only for
// what it is sure to use until its next report; all else stays in the pool, for whichever host asks
// first. So a key of which each host uses a few events is decided by its owner alone, as one bucket decides.
//
// # How much can be too much
//
// Loans leave the pool at once. No token is lent twice: there are no
// starters, and rates are no more than the limit. So hosts that all report every
// interval T exceed one bucket, in any window, by at most what they may hold when it
// begins beside a full pool:
//
//   - Loans: at most mostAsked·B. The pool fills up beside what a host has spent of its
//     loans, as it says when it asks. A host has one ask for a loan under way at a time.
//   - Debt: at most mostOwed·B, and owed times the cost of the event at hand. It is paid as
//     if what hosts were lent were in the pool. They may have spent it, or spend it afterwards.
//   - Saved rates: at most L·Horizon, or algorithm.Keep events for each host that has less. A
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

	// Here a cache line begins, which each report needs.

	settled float64          // the pool when it was last the bucket
	rule    exactbucket.Rule // as of the last report or take
	always  bool             // hosts ask for each event
	moved   bool             // the key had another owner recently
	handed  bool             // that owner handed the key over
	out     float64          // the part of the limit that hosts held as rates then

	// So again here, for sweeps.

	asking   account.Asking
	alone    int64         // the sum of what all rows have
	lease    time.Duration // of a grant
	expected float64       // tokens that expectLoans has taken out of the pool, because it was not handed over

	// Takes alone need the rest.

	bucket  exactbucket.Bucket // the pool, while a take is under way
	learned learned.State
	flowed  float64  // what came in since the first token was given, and what lower bursts cut off; -1 before that
	_       [16]byte // so that the size is a multiple of a cache line, as that of Account is
}

const (
	// lasts is for how long a loan is to last the host, in seconds. A longer time
	// means fewer asks, and more tokens at hosts that do not need them.
	lasts = 0.3

	// portion is the part of the pool that is lent, if all hosts ask. A larger one means fewer
	// asks. What a host does not use is missing elsewhere until the host reports.
	portion = 0.3

	// mostAsked is the part of the burst that is lent at a time, at most, and mostOwed the part
	// that the pool may owe for events. Together they are mostLent, as much as elastic lends.
	mostAsked = mostLent - mostOwed
	mostOwed  = 0.25

	// owed is how many events like the one at hand the pool may owe. More of them are too much
	// where several hosts use up a burst at once: they have spent what the pool counts.
	owed = 4

	// sure is how many standard deviations less than its fair part a host gets as a rate: a host that
	// happens to have fewer events than usual would keep tokens that others were refused.
	sure = 3

	// fewest is how many events a host's rate must allow until its next report, for each second of
	// that, which counts as 1 s at least and as 3 s at most. A host with fewer asks.
	fewest = 5

	// few is how many events/s a host must want, to be lent tokens when it asks. A host with
	// fewer asks for each event, as soon as its next token is there: it would keep a loan for too
	// long. A host with more that was refused asks for its part of what comes in, pace times a second.
	few  = 20
	pace = 5

	// busy is from how many events/s on a host is lent tokens with its grant, and its part of what comes
	// in: it reports early when it has fewer events, and so gives back what it does not use.
	busy = 10

	// small is the part of the burst, as 1 ÷ small, that is too little to be missed. A host of a key far
	// from its limit may be lent as much to last until its next report. Without such a loan, a host with
	// an event now and then asks for most of its events, while the pool is full.
	small = 100

	// beginning is how many events a host that asks is lent the tokens of, at most, if
	// it may have a burst. More of them would be idle at hosts that have no burst.
	beginning = 4

	// slightest is the weight of a grant without a rate. It is too small for the sum
	// of weights to count it.
	slightest = 1. / (1 << 42)
)

var _ account.Pooled = (*asked)(nil)

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
		k.expectLoans(now)
		if !k.handed { // else the pool is what was left without that grant
			k.learn(now)
		}
	}
	if r.Elsewhere || k.always {
		k.observe(now, limit, host, r, k.always)
		return account.Grant{}, false
	}
	row, _ := k.receive(now, limit, k.pool, host, r)
	row.current = true
	if now < k.learns {
		k.listen(row, r)
		return account.Grant{}, false
	}
	return k.grant(row, limit, cost(limit, r)), true
}

// Fetch implements account.Account. It reads from the lines beside those of the Account, too.
func (k *asked) Fetch(now time.Duration, host uint32, guess int32, gone func(host uint32)) (number int32, read int) {
	k.Expire(now, gone) // so the Account has nothing to look at
	number, read = k.Account.Fetch(now, host, guess, gone)
	return number, read + int(k.settled) + int(k.alone)
}

// begin makes the pool of a key that is new here. It is full, and fills, unless hosts
// turn out to hold grants of an earlier owner.
func (k *asked) begin(now time.Duration, limit algorithm.Limit) {
	k.Account.begin(now, limit)
	k.pool = limit.Burst
}

// grant decides what row's host may do. All sums are without its grant.
func (k *asked) grant(row *row, limit algorithm.Limit, cost float64) account.Grant {
	p := k.params
	wants := float64(row.wants)
	fair := k.fair(wants, limit)
	rate := fair - sure*math.Sqrt(fair*cost/account.Seconds(k.interval))
	if !(rate*account.Seconds(k.interval) >= fewest*cost*lower(upper(account.Seconds(k.interval), 1), 3)) {
		rate = 0
	}
	row.weight = upper(account.Ratio(rate, limit.Rate), slightest)
	k.parts.Add(row.weight)

	row.lent = sum.Grains(upper(k.loan(wants, rate, cost, busy, 0, limit), k.firstWithGrant(cost, limit)))
	row.unspent = row.lent
	lent := float64(row.lent)
	k.lent += lent
	k.pool -= lent
	return account.Grant{
		Weight: row.weight,
		Burst:  lower(lent+upper(rate*account.Seconds(p.Horizon), algorithm.Keep*cost), upper(limit.Burst, 1)),
		Tokens: lower(lent, limit.Burst),
		Used:   k.rateAlone(row, fair, limit),
	}
}

// wholeLimit is the limit in the unit of row.alone.
const wholeLimit = math.MaxUint16

// rateAlone is the rate that row's host may use while the owner does not answer: its fair part
// of what the others may not use then, and its own rate at least. The fair parts of hosts that
// reported at different times are more than the limit while the demand of some is not known.
func (k *asked) rateAlone(row *row, fair float64, limit algorithm.Limit) float64 {
	k.alone -= int64(row.alone)
	rest := upper(1-float64(k.alone)/wholeLimit, row.weight)
	row.alone = uint16(lower(account.Ratio(fair, limit.Rate), rest)*wholeLimit + 0.5)
	k.alone += int64(row.alone)
	return lower(fair, rest*limit.Rate)
}

// loan is what a host that wants so much, and has this rate, is lent of the pool now;
// 0 if that is not worth an event, or if the host wants fewer than least events/s of a
// key that is not far from its limit.
//
// Rise is by how much its demand has risen since the owner last learned of it. What the owner
// knows of the other hosts is as old. Often all have a burst at once, so each of them counts
// as if it wanted as much more: also one that has said so already, because the owner does not
// keep which have. The next ask of a host whose demand rises no more has no rise.
func (k *holdings) loan(wants, rate, cost, least, rise float64, limit algorithm.Limit) float64 {
	if !(wants > 0) {
		return 0
	}
	loan := upper(wants-rate, 0)*lasts + math.Sqrt(wants*lasts*cost)
	if need := k.need(wants, rate, cost, 2); need <= limit.Burst/small && k.far(limit) {
		loan, least = upper(loan, lower(k.need(wants, rate, cost, 4), limit.Burst/small)), 0
	}
	loan = lower(loan, k.portion(wants, rise))
	if wants >= busy*cost {
		inflow := wants / upper(k.wants, wants) * upper(limit.Rate-k.rates(limit.Rate), 0)
		loan = upper(loan, lower(inflow/pace, k.pool/2))
	}
	loan = lower(loan, mostAsked*limit.Burst-k.lent)
	if loan < cost || wants < least*cost {
		return 0
	}
	return loan
}

// asMuchAgain is what a host is lent at least that asks again after it has spent so much of its loans
// since its last report: as much as it has spent. So its loans double from ask to ask, and a batch of
// events takes few asks, though no average shows it yet.
func (k *holdings) asMuchAgain(spent, wants, rise float64, limit algorithm.Limit) float64 {
	if !(spent > 0) || !(wants > 0) {
		return 0
	}
	return lower(lower(spent, k.portion(wants, rise)), mostAsked*limit.Burst-k.lent)
}

// portion is the part of the pool that a host which wants so much is lent at most: see loan.
func (k *holdings) portion(wants, rise float64) float64 {
	others := rise * float64(k.rows.Len()-1)
	return portion * upper(k.pool, 0) * wants / (upper(k.wants, wants) + others)
}

// firstWithGrant is what a host is lent at least with its grant. Where hosts have few events, most of these wait for
// the owner in any case, and loans for the first ones of a burst would be idle at all the other hosts.
func (k *holdings) firstWithGrant(cost float64, limit algorithm.Limit) float64 {
	if k.wants < busy*cost*float64(k.rows.Len()) && !k.far(limit) {
		return 0
	}
	return k.firstEvents(cost, limit)
}

// firstEvents is what a host is lent at least while there is plenty: so much that the first events of its next burst
// do not wait, while it learns how much it wants. It is 0 if all hosts together would have too much.
func (k *holdings) firstEvents(cost float64, limit algorithm.Limit) float64 {
	hosts := float64(k.rows.Len())
	most := limit.Burst / upper(small, 10*hosts)
	if k.far(limit) { // a host without a recent event may soon have as many as the others
		most = upper(most, lower(k.need(k.wants/hosts, 0, cost, 4), limit.Burst/upper(small, 5*hosts)))
	}
	if k.pool < limit.Burst/2 || most < 2*cost {
		return 0
	}
	return lower(lower(beginning*cost, most), mostAsked*limit.Burst-k.lent)
}

// far reports whether the key is far from its limit: all hosts together want at most half of
// it, and the pool is at least half full.
func (k *holdings) far(limit algorithm.Limit) bool {
	return k.wants <= limit.Rate/2 && k.pool >= limit.Burst/2
}

// need is how many tokens a host that wants so much seldom exceeds until its next report,
// beside this rate: its demand and so many standard deviations, and an event at least.
func (k *holdings) need(wants, rate, cost, sigmas float64) float64 {
	lasting := upper(account.Seconds(k.interval), 1)
	return upper(upper(wants-rate, 0)*lasting+sigmas*math.Sqrt(wants*lasting*cost), cost)
}

// follow brings the account up to now, under rule. It reports whether the bucket is
// the pool, since it was last asked, and fills as that does, because nothing is out: then no fraction of a token is lost, however often the owner is asked.
func (k *asked) follow(now time.Duration, rule exactbucket.Rule) (whole bool) {
	whole = rule == k.rule && k.pool == k.settled && k.lent == 0 && k.rates(1) == 0 && (now >= k.learns || !k.moved && k.out == 0) && k.bucket.Under(rule)
	since := k.at
	if k.flowed < 0 && (k.pool < k.rule.Burst || k.rates(1) > 0) {
		k.flowed = 0
	}
	earlier, limit := algorithm.Limit{Rate: k.limit, Burst: cmp.Or(k.rule.Burst, rule.Burst)}, limitOf(rule)
	k.advance(now, earlier)
	if now < k.learns && (!k.moved || k.handed) {
		left := upper(1-upper(k.out, k.rates(1)), 0) // of the limit
		k.pool = lower(k.pool+left*earlier.Rate*account.Seconds(now-since), k.room(earlier))
	}
	k.rule = rule
	if limit != earlier {
		k.advance(now, limit)
	}
	if whole {
		k.close(now)
	}
	if k.flowed >= 0 {
		k.flowed += earlier.Rate*account.Seconds(now-since) + upper(earlier.Burst-limit.Burst, 0)
	}
	return whole
}

// limitOf is what a bucket under rule holds.
func limitOf(rule exactbucket.Rule) algorithm.Limit {
	return algorithm.Limit{Rate: rule.Rate, Burst: rule.Burst}
}

// Expire implements account.Account. The limit is that of the last report or take.
func (k *asked) Expire(now time.Duration, gone func(host uint32)) {
	if !k.begun() {
		return
	}
	now = max(now, k.at)
	after := time.Duration(0)
	if k.always {
		k.asking.Look(now)
		after = k.lease
	}
	if !k.sweeps(now) { // each report expires, and follows then
		return
	}
	k.endRule(now)
	if k.expire(now, after, gone) {
		k.alone = 0
		for _, row := range k.rows.All {
			k.alone += int64(row.alone)
		}
	}
}

// Demand implements account.Account. Hosts that ask for each event do not report what they want: what they recently asked for counts.
func (k *asked) Demand(yield func(account.Band) bool) {
	for b := range k.Account.Demand {
		if k.always {
			b.Clients = max(b.Clients, 1)
			b.Wants += k.asking.Wants()
		}
		yield(b)
	}
}
