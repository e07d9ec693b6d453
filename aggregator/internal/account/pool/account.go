// SPDX-License-Identifier: Apache-2.0

// Package pool is the account that shares a limit as if all hosts drew on one bucket. The owner keeps
// that bucket, the pool, and lends hosts rates and tokens out of it: algorithm.Elastic says how much,
// and how much can be too much. Of what divides the rates it knows only the form by demand. It knows no
// messages and no other key, and has no lock and no clock: one caller at a time calls an account.
package pool

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rowset"
)

// Account is one key's pool and who draws on it, for the owner of the key.
type Account struct{ holdings }

// holdings are the pool and what each host holds of it: what reports and time do to them,
// and what a host is granted.
type holdings struct {
	params   *algorithm.Elastic
	terms    *dynamicconfig.Rule // the latest rule; nil if there was none yet
	interval time.Duration
	level

	// learns is until when others may hold grants of an earlier owner that
	// this one does not know of.
	learns time.Duration

	// Here a cache line ends, and the next begins.

	sums

	since  time.Duration // when the key began
	swept  time.Duration
	silent time.Duration // before then no host has been silent for too long

	// So again here.

	rows rowset.Set[row]

	part float64 // of the limit, for the host that reports; or byDemand

	// The size is a multiple of a cache line, so that two processors that work on
	// neighbouring keys do not write to the same line.
}

// usual are the parameters of almost every key.
var usual = algorithm.Elastic{}.WithDefaults()

// New returns the account of a key without reports. It is an account.Pooled.
func New(now, moved time.Duration, c *account.Config) account.Account {
	k := Account{holdings{interval: c.Interval, level: level{limit: -1}, part: byDemand, params: &usual}}
	if c.Rule != nil && c.Rule.Lease > 0 && now-moved >= c.Rule.Lease {
		k.learns = fresh
	}
	k.tune(c)
	switch {
	case c.Algorithm.Reach != algorithm.ReachNever:
		return newAsked(now, k, c)
	case c.Algorithm.Weigher.Form == algorithm.FormDemand:
		return &k
	default:
		return &weighed{k, account.NewKept(c.Algorithm.Weigher, c.Settings)}
	}
}

// tune has the pool work by c, if that has a rule. While the key has another rule instead, the pool
// fills as that says.
func (k *holdings) tune(c *account.Config) {
	if c.Rule == nil {
		if c.Instead != nil && k.terms != nil {
			k.terms = c.Instead
		}
		return
	}
	k.terms, k.params = c.Rule, &usual
	if c.Algorithm.Elastic != (algorithm.Elastic{}) {
		e := c.Algorithm.Elastic.WithDefaults()
		k.params = &e
	}
}

// shortBelow is the part of the burst that a key saves at most while it is short, below a parent: the pools of other
// clusters are full too, and one bucket for all of them would be empty.
const shortBelow = 0.1

const (
	// forgotten is after how many intervals the row of a silent host goes.
	forgotten = 10

	// recent is for how many seconds back a host is charged that held
	// nothing of ours.
	recent = 0.5

	// mostWanted is how many times the limit, or one event/s if that is more, a host may want. More counts as that:
	// it would get almost all either way, and what others want must not be lost beside it.
	mostWanted = 1 << 20

	// learning is how long a new owner of a key listens before it answers: hosts that
	// see the ring change report within a part of it.
	learning = 500 * time.Millisecond
)

// Hosts implements account.Account.
func (k *Account) Hosts() int { return k.rows.Len() }

// Demand implements account.Account.
func (k *Account) Demand(yield func(account.Band) bool) {
	yield(account.Band{Clients: int64(k.rows.Len()), Wants: k.wants})
}

// Knows implements account.Account.
func (k *Account) Knows(host uint32) bool { return k.rows.FindAt(k.found, host) != rowset.None }

// Fetch implements account.Account. It reads from each cache line of k, and both ends
// of the host's row.
func (k *Account) Fetch(now time.Duration, host uint32, guess int32, gone func(host uint32)) (number int32, read int) {
	k.Expire(now, gone)
	row := k.rows.Of(guess, host)
	if k.found = guess; row == nil {
		if k.found = k.rows.Find(host); k.found == rowset.None {
			return rowset.None, 0
		}
		row = k.rows.At(k.found)
	}
	return k.found, int(row.wants)
}

// Beside implements account.Account.
func (k *Account) Beside(int32) (read int) { return 0 }

// Configure implements account.Account.
func (k *Account) Configure(then time.Duration, c *account.Config) {
	k.endRule(then)
	before, limit := k.terms, k.limit
	k.configure(then, c)
	if k.begun() && before != nil && (c.Rule != nil || c.Instead != nil) && !k.terms.Parent { // whose lease stays as it is
		k.advance(k.at, partly(partOf(limit, before), k.terms))
	}
}

// endRule brings the account up to then under the rule until then.
func (k *holdings) endRule(then time.Duration) {
	if k.begun() && k.terms != nil && then > k.at {
		limit := partly(partOf(k.limit, k.terms), k.terms)
		limit.Rate = k.limit // below a parent, what that leased
		k.advance(then, limit)
	}
}

// partly is part of rule's limit, as owned.Key.Limit has it.
func partly(part float64, rule *dynamicconfig.Rule) algorithm.Limit {
	return algorithm.Limit{Rate: part * float64(rule.Limit), Burst: upper(part*rule.Burst, lower(rule.Burst, 1))}
}

// partOf is the part of rule's limit that limit is, which was in force last.
func partOf(limit float64, rule *dynamicconfig.Rule) float64 {
	if rule.Limit <= 0 || rule.Parent { // what the cluster above leases may have more than its part of the burst
		return 1
	}
	return account.Ratio(limit, float64(rule.Limit))
}

// configure puts c in force from then on.
func (k *holdings) configure(then time.Duration, c *account.Config) {
	if c.Interval < k.interval {
		k.changed().SlowUntil(then + dead(k.interval))
	}
	k.interval = c.Interval
	before := k.terms
	k.tune(c)
	k.lighten(before)
}

// lighten has a debt that is deeper than charges may make become less with the limit and
// burst of the rule, which were those of before: it does not take longer to pay back.
func (k *holdings) lighten(before *dynamicconfig.Rule) {
	if before == nil || before == k.terms || k.terms.Limit <= 0 {
		return
	}
	less := 0.0 // of a limit of 0: it may have been any before that
	if before.Limit > 0 {
		less = lower(float64(k.terms.Limit/before.Limit), k.terms.Burst/before.Burst)
	}
	if deepest := -k.terms.MostDebt(); k.pool < deepest {
		k.pool = upper(k.pool, lower(k.pool*less, deepest))
	}
}

// Report implements account.Account.
func (k *Account) Report(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report) (account.Grant, bool) {
	if !k.begun() {
		k.begin(now, limit)
	}
	before := k.pool
	k.advance(now, limit)
	if r.Has > 0 && now < k.since+k.interval && !k.Knows(host) { // learn does nothing later, and to look for a host takes time
		k.learn(now)
	}
	if r.Elsewhere {
		k.bound(limit, before)
		k.observe(now, limit, host, r, false)
		return account.Grant{}, false
	}
	row, saved := k.receive(now, limit, before, host, r)
	row.current = true
	if k.terms != nil && k.terms.Parent {
		k.boundBelow(limit)
	}
	if now < k.learns {
		k.listen(row, r)
		return account.Grant{}, false
	}
	return k.grant(row, limit, saved, cost(limit, r)), true
}

// bound keeps the pool between the deepest debt and what there is room for.
func (k *holdings) bound(limit algorithm.Limit, before float64) {
	if k.pool = lower(k.pool, k.room(limit)); k.pool < -limit.Burst { // the deepest debt is more than that
		forgive(k, limit, before)
	}
}

// forgive ends what is owed beyond the deepest debt, and beyond before: events that wait may have taken more.
func forgive(k *holdings, limit algorithm.Limit, before float64) {
	k.pool = upper(k.pool, lower(before, account.Deepest(k.terms, k.whole(limit))))
}

// whole is the limit of the rule, of which limit is a part on the smaller side of a split, or
// below a parent: a part that comes and goes forgives no debts.
func (k *holdings) whole(limit algorithm.Limit) algorithm.Limit {
	if k.terms == nil {
		return limit
	}
	return algorithm.Limit{Rate: float64(k.terms.Limit), Burst: k.terms.Burst}
}

// boundBelow is bound below a parent, whose limit is a part that changes. A part that becomes smaller makes debts
// that one bucket would not have: deeper ones than a burst are forgiven.
func (k *holdings) boundBelow(limit algorithm.Limit) {
	if k.wants > limit.Rate {
		k.pool = lower(k.pool, shortBelow*limit.Burst)
	}
	k.pool = upper(k.pool, -limit.Burst)
}

// receive takes in what host did and wants, and bounds the pool, which had before. Saved is what the host had left.
func (k *holdings) receive(now time.Duration, limit algorithm.Limit, before float64, host uint32, r *account.Report) (row *row, saved float64) {
	if row = k.rows.Of(k.found, host); row == nil {
		row = k.rows.Of(k.rows.Find(host), host)
	}
	if row != nil {
		saved = k.settle(now, limit, before, row, r)
	} else {
		row = k.rows.At(k.rows.Add(host))
		k.pool -= k.ungranted(now, limit, r)
		if k.pool < -limit.Burst {
			forgive(k, limit, before)
		}
	}
	k.pool = lower(k.pool, k.room(limit))
	row.last = now
	k.want(row, reasonable(r.Wants, limit))
	return row, saved
}

// reasonable is wants, or the most that one host may want of limit.
func reasonable(wants float64, limit algorithm.Limit) float64 {
	return lower(wants, mostWanted*upper(limit.Rate, 1))
}

// cost is the most that is asked for at once under limit, by r.
func cost(limit algorithm.Limit, r *account.Report) float64 {
	return lower(upper(r.Cost, 1), upper(limit.Burst, 1))
}

// advance lets time fill the pool with what is not granted as rates.
func (k *holdings) advance(now time.Duration, limit algorithm.Limit) {
	fill := limit.Rate - k.rates(k.limit)
	if now < k.learns {
		fill = lower(fill, 0) // the rest is with hosts that we do not know yet
	}
	passed := account.Seconds(now - k.at)
	if limit.Rate != k.limit {
		k.changed().Was(now, k.limit)
		k.limit = limit.Rate
	}
	k.pool = lower(k.pool+fill*passed, k.room(limit))
	k.at = now
}

// settle takes back what row holds and charges what its host used instead. It returns how much of it the host had left.
func (k *holdings) settle(now time.Duration, limit algorithm.Limit, before float64, row *row, r *account.Report) (left float64) {
	since := account.Seconds(now - row.last)
	part := row.late.NewPart(now-row.last, r)
	passed := k.past.Passed(row.last, now, k.limit)
	left = float64(row.lent) + row.weight*passed - part*r.Allowed
	if since > algorithm.Silence*account.Seconds(k.interval) && !k.past.SlowAt(now) { // it was taken for dead
		// Expire may not have taken back what was lent yet.
		starter := float64(row.starter())
		most := upper(k.ungranted(now, limit, r), lower(r.Allowed, starter))
		// Events use no more than the grant had and a little that the host has saved up. Callers charged the rest: a debt.
		more := r.Allowed - float64(row.lent) - starter - lower(r.Has, 1)*passed
		if r.Has > 0 && more > algorithm.Keep {
			most += more
		}
		left = upper(float64(row.lent)-r.Allowed, -most)
	}
	if k.past.LeftSince(row.last) { // the owner between took in what it held
		left = lower(left, 0)
	}
	k.pool += left
	if k.pool < -limit.Burst { // all hosts' starters may be many bursts
		forgive(k, limit, before-float64(row.starter()))
	}
	k.drop(row)
	return left
}

// Expire implements account.Account.
func (k *Account) Expire(now time.Duration, gone func(host uint32)) {
	if k.sweeps(now) {
		k.expire(now, 0, gone)
	}
}

// dead is after how long a silent host is taken for dead, of which a report is due each interval.
func dead(interval time.Duration) time.Duration {
	return time.Duration(algorithm.Silence * float64(interval))
}

// sweeps reports whether expire has something to do: it looks at all rows, a few times an interval.
func (k *holdings) sweeps(now time.Duration) bool { return now-k.swept >= k.interval/4 }

// expire takes back what hosts hold that are dead, and have been silent for as long as after. It reports whether it
// has looked at all rows.
func (k *holdings) expire(now, after time.Duration, gone func(host uint32)) (looked bool) {
	after = max(after, dead(k.interval))
	if k.swept = now; now < k.silent || k.past.SlowAt(now) {
		return false
	}
	first, lent, starters, wants := now, 0.0, 0.0, 0.0
	for i, row := range k.rows.All {
		silent := now - row.last
		if silent >= after {
			k.fade(row)
			if silent >= max(forgotten*k.interval, after) {
				k.drop(row)
				host := k.rows.Host(i)
				k.rows.Remove(i)
				gone(host)
				continue
			}
		}
		out := row.out()
		lent, starters = lent+float64(out), starters+float64(row.unspent-out)
		wants += float64(row.wants)
		first = min(first, row.last)
	}
	k.lent, k.starters, k.wants = lent, starters, wants
	k.silent = first + after
	k.past = k.past.Since(now-after, now)
	return true
}

// Trim implements account.Account. Expire has taken back what silent hosts held.
func (k *Account) Trim(now time.Duration, gone func(host uint32)) {
	after := dead(k.interval)
	for i, row := range k.rows.All {
		if now-row.last >= after && row.weight == 0 && row.lent == 0 {
			host := k.rows.Host(i)
			k.drop(row)
			k.rows.Remove(i)
			gone(host)
		}
	}
}
