// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"cmp"
	"time"
)

// Elastic are the parameters of the pool account, which shares a limit as if all
// hosts drew on one bucket. The owner keeps that bucket, the pool, and gives each host:
//
//   - a rate until the host's next report, in proportion to its demand or as another
//     Weigh says, for what the host uses all the time;
//   - a loan of tokens, for what the rate does not cover;
//   - a starter: tokens to begin a burst with, which stay in the pool too.
//
// Rates and loans are taken out of the pool. What a host did not use of them flows back
// with its next report, and what it used of its starter is taken out of the pool then. If
// the pool has less, that is debt, and all hosts pay it back out of their rates. So over
// any time the hosts use what one bucket would have given them, but for what is lent twice.
//
// Hosts that hold grants and report every interval exceed one bucket by at most Overshoot,
// whatever they say that they want and hold. docs/design/0002-elastic.md proves it, and says
// what hosts add that have no grant, vanish or lie about what they used.
//
// Elastic needs hosts that report early when they run dry or when their demand
// changes, as package limiter's do.
//
// The zero value of a field means its default.
type Elastic struct {
	// Overcommit is the part of the burst that is lent twice: all hosts together hold it to
	// begin bursts with, until their first early report is answered; in [0, 1], default
	// 0.5. More lets a burst begin with fewer false rejects and reports, and exceeds the
	// limit by more at worst.
	Overcommit float64

	// Horizon is for how long the tokens that a host gets last it; default
	// 200ms. Longer means fewer early reports, and more tokens that are stranded
	// where a burst has ended.
	Horizon time.Duration

	// Repay is how long it takes to pay a debt back; default 3s. Shorter
	// keeps shorter windows exact; longer cuts rates less.
	Repay time.Duration
}

// Defaults of Elastic.
const (
	defaultOvercommit = 0.5
	defaultHorizon    = 200 * time.Millisecond
	defaultRepay      = 3 * time.Second
)

const (
	// Silence is after how many intervals a host that does not report is taken to
	// hold nothing any more.
	Silence = 1.75

	// Keep is how many events' worth of its rate a host may save up.
	Keep = 2
)

// Overshoot is how many tokens more than limit.Rate·t + limit.Burst so many
// hosts, all of which hold grants and report every interval, can use in any
// time t, for events that cost 1; of others, the cost counts for each host.
func (e Elastic) Overshoot(limit Limit, hosts int, interval time.Duration) float64 {
	n := float64(hosts)
	starters := max(e.WithDefaults().Overcommit*limit.Burst, min(2*n, limit.Burst)) + n
	return starters + limit.Rate*Silence*interval.Seconds()
}

// WithDefaults fills in zero fields.
func (e Elastic) WithDefaults() Elastic {
	e.Overcommit = cmp.Or(e.Overcommit, defaultOvercommit)
	e.Horizon = cmp.Or(e.Horizon, defaultHorizon)
	e.Repay = cmp.Or(e.Repay, defaultRepay)
	return e
}
