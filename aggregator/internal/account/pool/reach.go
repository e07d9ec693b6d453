// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/account/learned"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/internal/rowset"
	"github.com/headgate/headgate/internal/sum"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

var _ account.Pooled = (*Account)(nil)

// Reach implements account.Pooled.
func (k *Account) Reach(now time.Duration, c *account.Config) account.Pooled {
	k.endRule(now)
	k.markOutdated(now)
	if c.Algorithm.Reach == algorithm.ReachNever {
		return k
	}
	a := newAsked(now, *k, c)
	a.moved = k.begun()
	a.charge(now)
	return a
}

// newAsked returns the asked that goes on with k: hosts ask for tokens from now on, as c says.
func newAsked(now time.Duration, k Account, c *account.Config) *asked {
	a := &asked{Account: k, learned: learned.New(now), flowed: -1}
	if k.begun() { // nobody knows what it gave
		a.flowed = math.Inf(1)
	}
	a.reach(now, c)
	return a
}

// Reached implements account.Pooled.
func (k *Account) Reached() algorithm.Reach { return algorithm.ReachNever }

// Reached implements account.Pooled.
func (k *asked) Reached() algorithm.Reach {
	if k.always {
		return algorithm.ReachAlways
	}
	return algorithm.ReachWhenOut
}

// Reach implements account.Pooled. One bucket would have what the pool and the hosts
// have.
func (k *asked) Reach(now time.Duration, c *account.Config) account.Pooled {
	k.endRule(now)
	k.markOutdated(now)
	if c.Algorithm.Reach != algorithm.ReachNever {
		k.reach(now, c)
		return k
	}
	a := k.Account // without the rest
	return &a
}

// charge takes starters out of the pool at now, because hosts that ask are lent nothing twice.
// The starter of a host that has been silent for too long stays beside the pool: what it does
// not use of a loan would be lost, and it pays for what it has used when it comes back.
func (k *holdings) charge(now time.Duration) {
	silent := dead(k.interval)
	if k.past.SlowAt(now) {
		silent = math.MaxInt64
	}
	for _, row := range k.rows.All {
		if now-row.last < silent {
			k.pool -= float64(row.starter())
			k.hold(row, row.unspent, row.unspent)
		}
	}
}

// endRule brings the account up to then under the rule until then.
func (k *asked) endRule(then time.Duration) {
	if k.rule != (exactbucket.Rule{}) {
		k.follow(max(then, k.at), k.rule)
	}
}

// reach takes in when hosts ask under c from now on: for each event, or for what they lack.
func (k *asked) reach(now time.Duration, c *account.Config) {
	if always := c.Algorithm.Reach == algorithm.ReachAlways; always != k.always {
		k.always, k.asking, k.alone = always, account.NewAsking(now), 0 // hosts asked for a part of their events before, or for all
	}
	if c.Rule != nil {
		k.lease = c.Rule.Lease
	}
}

// markOutdated notes that no host has reported or asked under the algorithm that the key has from now on, and
// that no rate is set for a host that cannot ask.
func (k *holdings) markOutdated(now time.Duration) {
	for _, row := range k.rows.All {
		row.current, row.alone = false, 0
	}
	k.silent = min(k.silent, now)
}

// Configure implements account.Account.
func (k *asked) Configure(then time.Duration, c *account.Config) {
	k.endRule(then)
	before := k.terms
	k.configure(then, c)
	if c.Rule == nil && c.Instead == nil {
		return
	}
	if c.Rule != nil {
		k.reach(then, c)
	}
	if before != nil && k.begun() && !k.terms.Parent { // whose lease stays as it is
		k.follow(k.at, bucketRule(k.terms, partly(partOf(k.limit, before), k.terms)))
	}
}

// observe takes in a report of a host that is granted nothing: it names another algorithm
// than the key's rule, or the rule has hosts ask for each event. What the host has left
// of its loan stays out as long as it has a grant.
//
// A host that knows the rule says with its last report under the earlier one
// what it used before.
func (k *holdings) observe(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report, always bool) {
	had, weight, current := 0.0, 0.0, false
	if i := k.rows.FindAt(k.found, host); i != rowset.None {
		row := k.rows.At(i)
		had, weight, current = float64(row.lent), row.weight, row.current
	}
	if current && !always { // what it held is settled, and it has a grant of the rule's own
		k.pool = upper(k.pool-r.Allowed, lower(k.pool, account.Deepest(k.terms, limit)))
		return
	}
	row, saved := k.receive(now, limit, k.pool, host, r)
	switch {
	case current:
		k.unwant(row)
		return
	case !(r.Has > 0):
		if !always && k.part == byDemand && limit.Rate > 0 && (k.terms == nil || !k.terms.Parent) {
			k.setAside(row, limit, r.Rates.Allowed)
		}
		return
	case always: // a host holds what it was granted here, whatever it says, until its lease ends
		r.Has = lower(r.Has, weight)
	}
	k.listen(row, r)
	if now >= k.learns {
		lent := sum.Grains(upper(lower(saved, had), 0))
		k.hold(row, lent, lent)
		k.pool -= float64(lent)
	}
}

// setAside sets as much of limit aside as row's host uses, which is granted nothing: its fallback does
// not follow what others demand, so it counts as if it demanded as much as would bring it its use.
// Events that its fallback refuses do not count. All hosts together hold no more than the limit.
func (s *sums) setAside(row *row, limit algorithm.Limit, uses float64) {
	uses = lower(uses, limit.Rate) // more cannot be left
	others := s.wants - float64(row.wants)
	left := upper(limit.Rate-uses, limit.Rate/mostAside)
	s.want(row, reasonable(uses*upper(others/left, 1), limit))
	row.weight = lower(account.Ratio(uses, limit.Rate), upper(1-s.parts.Value(), 0))
	s.parts.Add(row.weight)
}

// mostAside is how many times as much as all others such a host may count as demanding, or its use if that is more.
const mostAside = 64

// asksForEach notes that host asks for each event by now. It does not use what it holds any more, and
// its last report says how much it used. Until then, all that it may have used counts as lent.
func (k *asked) asksForEach(now time.Duration, host uint32) {
	i := k.rows.Find(host)
	if i < 0 || k.rows.At(i).current {
		return
	}
	row := k.rows.At(i)
	row.current = true
	k.hold(row, row.lent+sum.Grains(row.weight*k.past.Passed(row.last, now, k.limit)), row.unspent)
	k.parts.Sub(row.weight)
	row.weight = 0
	k.unwant(row)
}

// Take implements account.Pooled: the host does not know yet that it need not ask. A host that lies
// about that brings the pool into no deeper debt than reports may: events do not wait for
// longer, and no earlier owner hands the pool over.
func (k *Account) Take(now time.Duration, limit algorithm.Limit, t *usage.Take, by, _ uint32) usage.Took {
	if !k.begun() {
		k.begin(now, limit)
	}
	now = max(now, k.at)
	before := k.pool
	k.advance(now, limit)
	k.bound(limit, before)
	rule := bucketRule(k.terms, limit)
	rule.Rate = upper(rule.Rate-k.rates(rule.Rate), 0)
	if rule.MaxWait == 0 && rule.Rate > 0 {
		longest := -account.Deepest(k.terms, limit) / rule.Rate
		rule.MaxWait = time.Duration(upper(lower(longest, account.Seconds(rpc.MaxWait))*float64(time.Second), 1))
	}
	t.Handed = false
	b, l := exactbucket.New(now, rule), learned.New(now)
	b.Lower(now, k.pool)
	took := l.Serve(now, &b, t, by, k.terms, limit, false, 0)
	k.pool = b.Level(now)
	return took
}

// Left implements account.Pooled: another owner learns the pool from the reports of hosts.
func (k *Account) Left(time.Duration, algorithm.Limit) (t usage.Take, full bool) { return t, true }

// Leave implements account.Pooled.
func (k *Account) Leave(now time.Duration) { k.changed().Leave(now) }

// ruleless is for how long a pool is kept that no rule has decide, and that takes longer to fill.
const ruleless = time.Hour

// Lacks implements account.Pooled.
func (k *Account) Lacks(now, lately time.Duration) bool {
	used := now - k.at
	return k.begun() && (used <= lately || used <= ruleless && k.terms.Limit > 0 && !k.fills(now, k.pool, k.at))
}

// Keeps implements account.Pooled.
func (k *Account) Keeps(now time.Duration, _ algorithm.Limit, lately time.Duration) bool {
	return k.begun() && (now-k.at <= lately || !k.fills(now, k.pool, k.at))
}

// fills reports whether a pool that had so many tokens at since is full by now, if no host
// wants anything: the cluster above gives next to nothing to a key without demand, so what
// counts is the rule's limit.
func (k *holdings) fills(now time.Duration, tokens float64, since time.Duration) bool {
	return tokens+float64(k.terms.Limit)*account.Seconds(now-since) >= k.terms.Burst
}
