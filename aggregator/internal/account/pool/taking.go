// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/internal/sum"
	"github.com/headgate/headgate/rpc/usage"
)

// bucketRule is rule for a bucket, with a limit of its own.
func bucketRule(rule *dynamicconfig.Rule, limit algorithm.Limit) exactbucket.Rule {
	return exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst, MaxWait: rule.MaxWait, MaxDebt: rule.MaxDebt, MaxCost: rule.MaxCost}
}

// Take implements account.Pooled.
func (k *asked) Take(now time.Duration, limit algorithm.Limit, t *usage.Take, by, host uint32) usage.Took {
	rule := bucketRule(k.terms, limit)
	k.asking.Add(min(max(t.Tokens, 0), k.terms.MostDebt())) // more can never be taken
	b := k.open(now, rule)
	apart := false // see takeOver
	if t.Handed {
		apart = k.takeOver(now, t.By, t.Rates)
		b = k.open(now, rule)
	}
	if !k.always && t.More > 0 && !k.Knows(host) { // it has a grant of another owner
		k.expectLoans(now)
		b = k.open(now, rule)
	}
	cost := t.Tokens // which changes
	lent := 0.0      // of what hosts were lent, as much as b may owe for an event: one bucket would have it
	if !k.always {
		lent = lower(k.lent, lower(mostOwed*rule.Burst, owed*cost))
	}
	took := k.learned.Serve(now, b, t, by, k.terms, limit, apart, lent)
	k.close(now)
	if k.always && !t.Auto {
		k.asksForEach(now, host)
	}
	row, rise := k.observeAsk(now, host, t)
	if row != nil && took.OK && took.Wait == 0 && t.More >= 1 {
		took.Lent = k.lend(row, rise, t.More, k.terms.Burst-t.More, cost)
		took.Left -= took.Lent
	}
	if row != nil && !took.OK && (t.More >= 1 || row.weight > slightest) && float64(row.wants) >= few*upper(cost, 1) {
		pause := time.Second / pace
		if t.Here { // it has no asks on their way, as others have, which take a token as soon as it is there
			pause /= 2
		}
		took.Retry = max(took.Retry, pause)
	}
	if !took.OK && k.asking.Since(now) >= time.Second { // so that the cluster above learns of it soon
		k.asking.Look(now)
	}
	return took
}

// expectLoans notes that the key had another owner recently, which may have lent as much as
// there is: half of the pool is left for what it lent and what it had.
func (k *asked) expectLoans(now time.Duration) {
	if k.moved || k.handed || !k.new(now) {
		return
	}
	k.moved = true
	k.expected = k.rule.Burst/2 + k.limit*account.Seconds(min(now, k.learns)-k.since)
	k.pool -= k.expected
}

// new reports whether the key came here recently, and may have had another owner before.
func (k *asked) new(now time.Duration) bool {
	return k.begun() && k.learns != fresh && account.Seconds(now-k.since) <= algorithm.Silence*account.Seconds(k.interval)
}

// takeOver notes that the earlier owner called by hands the key over, before the pool is lowered to what that had left, when
// hosts held so much of the limit as rates. What was lent is not in what was left: so no loans are expected. It returns whether what
// was taken here comes off that: not if that owner hands over again, whose pool filled up meanwhile, or the key has been here for too long.
func (k *asked) takeOver(now time.Duration, by uint32, rates float64) (apart bool) {
	if !k.new(now) {
		return false
	}
	k.handed, k.out = true, upper(k.out, rates) // an owner before that one knows of less
	k.pool = lower(k.pool+k.expected, k.room(limitOf(k.rule)))
	k.expected = 0
	return k.learned.Handed(by)
}

// Leave implements account.Pooled. The next owner hears what was taken here.
func (k *asked) Leave(now time.Duration) {
	k.Account.Leave(now)
	k.learned.Leave()
}

// open is what there is at now under rule, to take from, to give to, or to lower. Nothing
// else may be called before close is.
func (k *asked) open(now time.Duration, rule exactbucket.Rule) *exactbucket.Bucket {
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

// close takes in what was done to the bucket, at the same now.
func (k *asked) close(now time.Duration) {
	k.pool = k.bucket.Level(max(now, k.at))
	k.settled = k.pool
}

// observeAsk takes in what t says of host, which asks, beside the event: that it is there, and what it wants by now.
// It returns the host's row, and by how much the host wants more than it did before; nil if the host holds no grant.
func (k *asked) observeAsk(now time.Duration, host uint32, t *usage.Take) (row *row, rise float64) {
	i := k.rows.Find(host)
	if i < 0 || !(t.More > 0) || now < k.learns || k.always {
		return nil, 0
	}
	row = k.rows.At(i)
	// A host that was taken for dead has lost what it held. One that had nothing to report is alive: the next sweep must not take it for dead.
	if now = max(now, k.at); row.weight == 0 || now-row.last >= k.interval && !k.past.LeftSince(row.last) {
		k.hold(row, row.lent+sum.Grains(row.weight*k.past.Passed(row.last, now, k.limit)), row.unspent)
		row.last, row.late = now, account.AnyTime
	}
	if row.weight == 0 {
		row.weight = slightest
		k.parts.Add(row.weight)
	}
	if t.Wants > 0 {
		before := float64(row.wants)
		k.want(row, reasonable(t.Wants, limitOf(k.rule)))
		rise = upper(float64(row.wants)-before, 0)
	}
	return row, rise
}

// lend lends row's host, which has just taken tokens for an event of this cost, some more for its next
// events: at most most. It returns how many tokens.
//
// A host that asks has spent what it was lent before, but for what it holds. Its next report
// settles that; until then what is spent takes no room in the pool.
func (k *asked) lend(row *row, rise, most, holds, cost float64) float64 {
	k.hold(row, row.lent, min(row.unspent, sum.Grains(upper(holds, 0))))
	wants, limit, cost := float64(row.wants), limitOf(k.rule), upper(cost, 1)
	worth := upper(k.loan(wants, row.weight*k.limit, cost, few, rise, limit), k.firstEvents(cost, limit))
	loan := sum.Grains(lower(upper(worth, k.asMuchAgain(float64(row.lent-row.out()), wants, rise, limit)), most))
	if float64(loan) > most { // rounded up: the host has no room for that
		loan = math.Nextafter32(loan, 0)
	}
	if !(loan >= 1) {
		return 0
	}
	k.hold(row, row.lent+loan, row.unspent+loan)
	k.pool -= float64(loan)
	return float64(loan)
}

// Left implements account.Pooled. An owner that learns knows from the one before what hosts hold that have not
// reported yet. Without what flowed in, what is left is the burst without what was given here.
func (k *asked) Left(now time.Duration, limit algorithm.Limit) (t usage.Take, full bool) {
	b := k.open(now, bucketRule(k.terms, limit))
	defer k.close(now)

	rates := k.rates(1)
	if now < k.learns {
		rates = upper(rates, k.out)
	}
	told := b.Level(now)
	return usage.Take{Auto: !k.always, Told: told, Handed: true, Rates: min(rates, 1), Kept: upper(told-upper(k.flowed, 0), 0)}, b.Full(now)
}

// Lacks implements account.Pooled.
func (k *asked) Lacks(now, lately time.Duration) bool {
	used := now - k.learned.Last()
	soon := k.rule.Burst-k.pool <= k.rule.Rate*ruleless.Seconds() // hosts with a grant may have asked for nothing recently
	return used <= lately || (used <= ruleless || soon) && k.rule.Rate > 0 && k.Keeps(now, limitOf(k.rule), lately)
}

// Keeps implements account.Pooled.
func (k *asked) Keeps(now time.Duration, limit algorithm.Limit, _ time.Duration) bool {
	left, full := k.Left(now, limit)
	switch wants, _ := account.Wanted(k); {
	case k.terms.Parent:
		full = full || wants == 0 && k.fills(now, left.Told, k.learned.Last())
	case limit.Burst < k.terms.Burst: // on the smaller side of a split, which may end
		full = k.fills(now, left.Told, k.learned.Last())
	}
	return !full || k.always && k.terms.Parent && k.asking.Wants() > 0
}
