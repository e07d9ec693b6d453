// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"cmp"
	"time"
)

// Elastic are the parameters of the pool account, which shares a limit as if all
// hosts drew on one bucket. The owner keeps
// that bucket, the pool, and hands it out in two ways:
//
//   - a rate that runs until the host's next report, in proportion to its
//     demand or as another Weigh says, for what it uses all the time;
//   - tokens, for what it may need at once.
//
// Both are taken out of the pool when they are granted, and what a host turns
// out not to have used flows back with its next report. What was used beyond
// it is debt, which is paid back out of everybody's rates. So over any time
// the hosts use what one bucket would have given them, but for what is lent
// twice.
//
// # How much can be too much
//
// Say a key's hosts all hold grants, and report every interval T. For each
// host, what it used since its last report is at most
//
//	starter + lent + rate·(time since)
//
// because its bucket had no more. The pool is, by what Report does with it,
//
//	pool = B + L·t - spilt - reported usage - Σ(lent + rate·(time since))
//
// so up to any time t all hosts together used at most
//
//	reported + Σ(starter + lent + rate·(time since)) ≤ B + L·t - pool + Σ starter
//
// That is one bucket's worth, B + L·t, plus the debt (-pool, if it is
// negative) plus the starters.
//
// A window that begins later may begin with a full pool, and still more in the
// hands of hosts: what was lent to them and what they have saved of their
// rates. Reports do not say when in their time it was used. If it is used at
// the end, the rates that were not used before have filled the pool all the
// same.
//
//   - Σ lent is at most Lent·B.
//   - Saved rates are at most (1+Crowding)·L·Horizon, or two events' worth for
//     each host that has less; and not more than 1.75·T of the limit.
//   - Σ starter is at most Starter·B; or two events' worth for each host, if that
//     is more, up to B; or one for each, if that is more.
//   - Debt grows by starters that were spent, once per report and paid back
//     like all debt, and while rates exceed the limit: by at most
//     Crowding·L until all who hold too much have reported, 1.75·T.
//
// Overshoot adds these up, for events that cost 1. A host without a grant (new,
// or cut off for a whole lease) may use its even share once on top of it, until
// its first report.
//
// Elastic needs hosts that report early when they run dry or when their demand
// changes, as package limiter's do.
//
// The zero value of a field means its default.
type Elastic struct {
	// Headroom is the rate that a host gets in relation to its demand when
	// there is enough; ≥ 1, default 1.1. More rides out noise without asking;
	// less leaves more in the pool for bursts elsewhere.
	Headroom float64

	// Horizon is for how long the tokens that a host gets last it; default
	// 200ms. Longer means fewer early reports, and more tokens that are stranded
	// where a burst has ended.
	Horizon time.Duration

	// Chunk is the part of the pool that a host gets with its first events,
	// which may begin a burst, while most of the pool is there; in [0, 1],
	// default 0.02. More lets a burst begin with fewer reports, and strands
	// more where none comes.
	Chunk float64

	// Part is the largest part of the pool that one host gets at once, in
	// (0, 1], default 0.5. Less divides a nearly empty pool more finely, for
	// more reports.
	Part float64

	// Lent is the largest part of the burst that hosts hold as tokens at a time,
	// all together, beside the starter; in (0, 1], default 0.25. It bounds the
	// overshoot. Less makes bursts on many hosts ask more often.
	Lent float64

	// Starter is the part of the burst that is lent twice: all hosts
	// together hold it to begin a burst with, until their first early report
	// is answered; in [0, 1], default 0.25. It bounds the overshoot. A host
	// has two events' worth at least, if the burst is enough for all hosts, and
	// else one: so that two events at once pass on a host that is hardly used.
	Starter float64

	// Repay is how long it takes to pay a debt back; default 3s. Shorter
	// keeps shorter windows exact; longer cuts rates less.
	Repay time.Duration

	// Crowding is how far the rates together may exceed the limit for
	// lack of reports from those who hold too much; ≥ 0, default 0.01.
	// More gives a host whose demand has just grown its part sooner.
	Crowding float64

	// CatchUp is the part of the limit that is added to it while what was
	// missed is made up for, as when demand moved; ≥ 0, default 0.025. More
	// loses less, and is farther from one bucket meanwhile.
	CatchUp float64

	// Learn is how long a new owner of a key listens before it answers; default
	// 500ms, at most the interval. Hosts that see the ring change report within
	// a part of it. Shorter risks lending twice what others hold.
	Learn time.Duration
}

// Defaults of Elastic.
const (
	defaultHeadroom = 1.1
	defaultHorizon  = 200 * time.Millisecond
	defaultChunk    = 0.02
	defaultPart     = 0.5
	defaultLent     = 0.25
	defaultStarter  = 0.25
	defaultRepay    = 3 * time.Second
	defaultCrowding = 0.01
	defaultCatchUp  = 0.025
	defaultLearn    = 500 * time.Millisecond
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
// time t. The type's documentation derives it.
func (e Elastic) Overshoot(limit Limit, hosts int, interval time.Duration) float64 {
	e = e.WithDefaults()
	n := float64(hosts)
	lasts := limit.Rate * Silence * interval.Seconds()
	saved := (1+e.Crowding)*limit.Rate*e.Horizon.Seconds() + min(Keep*n, lasts)
	return e.Lent*limit.Burst + saved + 2*n*e.StarterOf(limit, hosts, 1) + e.Crowding*lasts
}

// StarterOf is what each of so many hosts holds to begin a burst with, when its
// largest events cost cost. E has no zero fields.
func (e *Elastic) StarterOf(limit Limit, hosts int, cost float64) float64 {
	even := limit.Burst / float64(hosts)
	starter, least := e.Starter*even, 2*cost
	if even < least {
		least = even
	}
	if least > starter {
		starter = least
	}
	if cost > starter {
		starter = cost
	}
	return starter
}

// WithDefaults fills in zero fields.
func (e Elastic) WithDefaults() Elastic {
	e.Headroom = cmp.Or(e.Headroom, defaultHeadroom)
	e.Horizon = cmp.Or(e.Horizon, defaultHorizon)
	e.Chunk = cmp.Or(e.Chunk, defaultChunk)
	e.Part = cmp.Or(e.Part, defaultPart)
	e.Lent = cmp.Or(e.Lent, defaultLent)
	e.Starter = cmp.Or(e.Starter, defaultStarter)
	e.Repay = cmp.Or(e.Repay, defaultRepay)
	e.Crowding = cmp.Or(e.Crowding, defaultCrowding)
	e.CatchUp = cmp.Or(e.CatchUp, defaultCatchUp)
	e.Learn = cmp.Or(e.Learn, defaultLearn)
	return e
}
