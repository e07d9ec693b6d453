// SPDX-License-Identifier: Apache-2.0

package algorithm

import "time"

// Auto shares a limit as Elastic does while it is high enough for the hosts
// that use it, and else has the decider asked for each event, as a Bucket.
//
//	split ──── too few events for each host ────▶ closing
//	  ▲                                              │ nobody holds anything
//	  └─────── enough events for each host ──────── whole
//
// There is one account at any moment, so that a switch gives nobody a second
// burst. In the split state it is Elastic's pool, and hosts without a grant may
// ask, and are paid out of it. In the closing state nothing is granted any more;
// what hosts hold is out until they say that it is gone, and the pool fills with
// what is left of the limit. In the whole state nothing is out: a Bucket begins
// with what the pool held, and the next pool with what the Bucket holds, debt
// included.
//
// A Grant of nothing (weight, burst and tokens are 0) says to a host: drop what
// you hold, and ask for each event. A host says by its weight of 0 that it holds
// nothing, so all other grants have a weight above 0.
//
// In the whole state the limit is exact. Otherwise, and over a switch, the bound
// is that of Elastic.
type Auto struct{}

var _ Stateful = Auto{}

// NameAuto is the name of Auto.
const NameAuto = "auto"

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

// Bucketed is a Key from whose account tokens are taken one by one, too.
type Bucketed interface {
	Key

	// Bucket is the account at now under rule, to take from, to give to, or to
	// lower. Nothing else may be called before Settle is.
	Bucket(now time.Duration, rule BucketRule) *Bucket

	// Settle takes in what was done to the Bucket, at the same now.
	Settle(now time.Duration)
}

// Share implements Algorithm, by demand alone, as Elastic does.
func (Auto) Share(limit Limit, demands []Rates, grants []Grant) {
	Elastic{}.Share(limit, demands, grants)
}

// NewKey implements Stateful. The Key is Bucketed.
func (Auto) NewKey(c Cluster) Key {
	return &autoKey{elasticKey: elasticKey{params: &usual, interval: c.Interval, limit: -1, part: byDemand}}
}
