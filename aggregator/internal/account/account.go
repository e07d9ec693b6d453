// SPDX-License-Identifier: Apache-2.0

// Package account is the contract between the owner of a key and what keeps the
// key's tokens and time.
//
//	report of one host ──▶ Account ──▶ its grant
//	                          │
//	                          └─▶ algorithm.Weigh: how to divide
//
// Any weigher runs on any account. Built-in weighers have a form that costs the same
// however many hosts there are; of others, Kept keeps what they say for a part of the
// interval. The packages below have the accounts; the aggregator knows none of them.
//
// Accounts have no lock and no clock, and know nothing of messages and other keys.
package account

import (
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc/usage"
)

// Account is the state of one key at its owner. It is for one caller at a time. Now
// counts from any fixed point and does not go backwards.
type Account interface {
	// Report takes in what host did, and returns what it may do from now on;
	// false if it should go on as it is. R is only for the call.
	Report(now time.Duration, limit algorithm.Limit, host uint32, r *Report) (Grant, bool)

	// Configure puts c in force from then on, which may be before the time of earlier calls: interval, parameters
	// and all else may have changed. Without a rule, hosts do not report until there is one again.
	Configure(then time.Duration, c *Config)

	// Expire forgets hosts that have been silent for too long at now, and
	// calls gone for each.
	Expire(now time.Duration, gone func(host uint32))

	// Trim forgets the silent hosts that Expire only forgets later, and calls gone
	// for each. The owner of the key calls it when the key has no room for another host.
	Trim(now time.Duration, gone func(host uint32))

	// Hosts is how many hosts are known, and Knows reports whether host is.
	Hosts() int
	Knows(host uint32) bool

	// Demand yields what all hosts want: a sum for each priority, or one of
	// priority 0 from an Account that knows no priorities.
	Demand(yield func(Band) bool)

	// State is what is known of the key at now, under limit, and Holdings yields what is
	// known of each host. They change nothing.
	State(now time.Duration, limit algorithm.Limit) State
	Holdings(now time.Duration, limit algorithm.Limit, yield func(Holding) bool)

	// Fetch is Expire, and then reads the memory that Report for host will read.
	// The owner calls Fetch for many keys before it calls Report for the first, so
	// that the processor loads the memory of all these keys at once.
	//
	// Fetch returns the number of host's row if it found one, and else −1. Guess is
	// where Fetch looks first: the number of host's row at another key, or −1. It is
	// often right, because an account numbers hosts in the order of their first
	// reports, which is often the same at many keys. A wrong guess costs only time.
	//
	// Read has no meaning. The owner uses it so that the compiler keeps the reads.
	Fetch(now time.Duration, host uint32, guess int32, gone func(host uint32)) (number int32, read int)

	// Beside reads the other rows that Report changes when it changes row number, if
	// there are any. Read is as for Fetch.
	Beside(number int32) (read int)
}

// Leaser is an Account that hosts claim amounts of, which they hold for a while.
type Leaser interface {
	Account

	// Claim takes in what host says, and returns what it holds from now on, of
	// the amount that there is.
	Claim(now time.Duration, t Terms, amount float64, host uint32, c Claim) Lease

	// Release forgets host. It returns false if host was not known.
	Release(host uint32) bool

	// Until is when the lease of host ends; 0 if it holds none.
	Until(host uint32) time.Duration

	// Held yields, for each host, a claim to keep what it holds. The bands are
	// good until the next yield. Nothing else may be done meanwhile.
	Held(yield func(host uint32, c Claim) bool)

	// Leased is how much all hosts hold.
	Leased() float64

	// Learns reports whether hosts get back what they have, because leases of an
	// earlier owner may be out. Waits: the cluster above has not said what there is.
	Learns(now time.Duration, waits bool) bool

	// Learned ends that at a time.
	Learned(at time.Duration)

	// Elsewhere says that another owner may lease the key out until a time. For as long as by the
	// rule after it, hosts get back what they have.
	Elsewhere(until time.Duration)

	// Swept says that the owner was running at now. It says so in each interval.
	Swept(now time.Duration)
}

// Pooled is an Account that keeps one pool of tokens for its key.
type Pooled interface {
	Account

	// Reach has hosts reach the pool from now on as c's algorithm says, and returns
	// the account that goes on with all that there was. The earlier one must not be
	// used any more. Reached is how hosts reach the pool.
	Reach(now time.Duration, c *Config) Pooled
	Reached() algorithm.Reach

	// Take serves t at now, for the owner whose number is by: asked by host, which may be
	// one that is not known. The Tokens of t become what was taken.
	Take(now time.Duration, limit algorithm.Limit, t *usage.Take, by, host uint32) usage.Took

	// Left is what the pool has at now, as a take of no tokens from which another owner
	// learns it, without its key; and whether the pool is full. Tokens that hosts hold are
	// not in it.
	Left(now time.Duration, limit algorithm.Limit) (t usage.Take, full bool)

	// Leave says that another owner has the key from now on. If it comes back, what hosts were granted
	// here before is not theirs any more.
	Leave(now time.Duration)

	// Keeps reports whether the pool is worth keeping at now though no host is known: what was
	// taken is not to come back at once, nor is a lease from above that is asked for to be lost.
	// Lacks is Keeps while no rule has the pool decide, but one may again: hosts charge it then
	// with what was used meanwhile, and with nothing that was taken from it before.
	Lacks(now, lately time.Duration) bool
	Keeps(now time.Duration, limit algorithm.Limit, lately time.Duration) bool
}

// Settings are what all keys have in common.
type Settings struct {
	Average Average
	Stages  []Stage

	// Interval is how often hosts report; > 0.
	Interval time.Duration

	// Member returns the name and the labels of host. Nil: hosts have no names and no labels.
	Member func(host uint32) Member
}

// Member is a host, as membership has it.
type Member struct {
	Name   string
	Labels algorithm.Labels
}

// Config is what an Account must know of its key. It does not change.
type Config struct {
	*Settings

	Rule      *dynamicconfig.Rule // nil: no rule has the algorithm any more
	Algorithm algorithm.Algorithm // with the parameters of Rule

	// Instead is the rule of a key that has no Rule, if it limits a rate: hosts decide by it, or another
	// account does. Until a Rule has this account decide again, its tokens fill by the limit of Instead.
	Instead *dynamicconfig.Rule

	// Bands are the weighers of priorities that have one of their own.
	Bands map[int64]algorithm.Weigher
}

// Report is what one host says about a key.
type Report struct {
	// Allowed and Rejected count cost over Elapsed; Rates are the same in
	// events/s.
	Allowed, Rejected float64
	Rates             Rates
	Elapsed           time.Duration

	// Wants is the host's demand in events/s.
	Wants float64

	// Cost is the largest cost that was recently asked for at once; ≥ 1.
	Cost float64

	// Has is the weight that the host now has; 0 if it has no valid grant.
	Has float64

	// Slots are those that the host has, or has in use if that is more; below 0 if it does
	// not say.
	Slots float64

	// Lease is for how long a grant is good.
	Lease time.Duration

	// Waits says that the cluster above has not said yet what there is.
	Waits bool

	// Elsewhere says that another algorithm granted what the host has: the
	// rules have changed, and one of the two does not know it yet. The host's
	// use and what it has are not for others, and it gets nothing.
	Elsewhere bool

	// Overlaps is set by Report: an earlier report of this host covered a part
	// of Elapsed. An answer was lost, a key is named twice in a report, or two
	// hosts have one name. Each report counts with the part that is new, as
	// far as the owner knows.
	Overlaps bool

	// Keeps is set by Report: the host keeps what it has, whatever that is.
	Keeps bool
}

// Deepest is the lowest level of a bucket of rule with this limit, in every account: see
// Rule.MostDebt. Rule may be nil.
func Deepest(rule *dynamicconfig.Rule, limit algorithm.Limit) float64 {
	if rule == nil {
		return -limit.Burst
	}
	return -min(rule.MostDebtOf(limit.Rate, limit.Burst), exactbucket.MaxTokens)
}

// Rates are what one host does with a key, in events/s; finite, ≥ 0. For slots in
// flight, the events are acquisitions.
type Rates struct{ Allowed, Rejected float64 }

// Total is what the host would use if it could.
func (d Rates) Total() float64 { return d.Allowed + d.Rejected }

// Plus adds rates.
func (d Rates) Plus(e Rates) Rates {
	return Rates{d.Allowed + e.Allowed, d.Rejected + e.Rejected}
}

// Times scales rates.
func (d Rates) Times(f float64) Rates { return Rates{d.Allowed * f, d.Rejected * f} }

// Seconds is d in seconds, without the divisions of its method.
func Seconds(d time.Duration) float64 { return float64(d) * 1e-9 }

// Ratio is part of whole, in [0, 1].
func Ratio(part, whole float64) float64 {
	switch {
	case !(part > 0) || !(whole > 0):
		return 0
	case part > whole:
		return 1
	}
	return part / whole
}

// Grant is one host's part.
type Grant struct {
	// Weight is the part of the limit, in [0, 1].
	Weight float64
	// Burst is how many tokens the host's bucket may hold.
	Burst float64
	// Used is what the whole cluster uses, in events/s; 0 from accounts that do
	// not know. From a pool that hosts ask, it is the rate that the host may use while
	// it cannot ask.
	Used float64
	// Tokens, of an account that lends them, are what the bucket is to hold as of
	// the host's report; finite, ≥ 0. Others leave the host its tokens.
	Tokens float64
}
