// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// byDemand is the part of each host where rates are in proportion to demands.
const byDemand = -1

// grant decides what row's host may do. All sums are without its grant. Begins says
// that it had no demand until now, saved what it has left of what it had, and cost
// what its largest events cost.
func (k *Account) grant(row *row, limit algorithm.Limit, begins bool, saved, cost float64) account.Grant {
	p := k.params
	// Debt is paid back by all; what is too much in the pool of a key that
	// is short is handed out.
	rate := limit.Rate
	if k.pool < 0 {
		rate = upper(rate+k.pool/seconds(p.Repay), 0)
	}
	// Tokens that one bucket would not have left any more were missed while rates
	// followed the demand. It is made up for slowly, and over no less time
	// than a rate may run.
	if missed := k.pool - k.ideal; missed > 0 && k.wants > limit.Rate {
		rate += lower(missed/(silence*seconds(k.interval)), p.CatchUp*limit.Rate)
	}
	wants, fair := float64(row.wants), 0.0
	if wants > 0 {
		fair = wants * lower(rate/k.wants, p.Headroom)
		if k.part >= 0 {
			fair = lower(k.part*rate, wants*p.Headroom)
		}
	}
	room := upper(rate*(1+p.Crowding)-k.rates(limit.Rate), 0)
	rate = lower(lower(room, fair), limit.Rate)
	row.weight = ratio(rate, limit.Rate)
	k.parts.Add(row.weight)

	free := upper(k.pool, 0)
	if free > k.ideal { // which is at most the burst
		free = lower(free, upper(k.ideal, lower(k.chance(limit, cost), limit.Burst)))
	}
	// Tokens are for what the rate does not cover, and for chance.
	need := upper(wants-rate, 0)*seconds(p.Horizon) + math.Sqrt(wants*seconds(p.Horizon)*cost)
	if wants > 0 {
		need += 2 * (cost - 1) // a cost is paid at once
	}
	if begins {
		need = upper(need, p.Chunk*free)
	}
	lent := upper(lower(lower(p.Part*free, need), p.Lent*limit.Burst-k.lent), 0)
	if free < keep*cost && wants > 0 {
		// A host with few events saves its rate up until it is worth one.
		lent = upper(lent, lower(saved, keep*cost))
	}
	row.lent = float32(lent)
	row.unspent = row.lent
	lent = float64(row.lent)
	k.lent += lent
	k.pool -= lent

	// All hosts together hold the starter, unless there is nothing to start.
	starter := lower(free, p.StarterOf(limit, k.rows.Len(), cost))
	tokens := lent + starter
	return account.Grant{
		Weight: row.weight,
		Burst:  lower(upper(tokens+rate*seconds(p.Horizon), keep*cost), upper(limit.Burst, 1)),
		Tokens: lower(tokens, limit.Burst),
	}
}

const (
	// quiet is less demand than any to speak of, events/s.
	quiet = 0.5

	keep = algorithm.Keep
)

// chance is how many tokens one bucket holds on average when demand is at the
// limit or above it, because events do not come evenly: the mean of a random walk
// that is drawn to an end. What is between reports cannot be seen otherwise.
func (k *Account) chance(limit algorithm.Limit, cost float64) float64 {
	spread := k.wants * cost // variance of demand, per second
	most := math.Sqrt(spread * seconds(k.interval))
	mean := lower(spread/(2*upper(k.wants-limit.Rate, 1e-9)), most)
	if mean < keep*cost {
		return 0 // too little to hand out
	}
	return mean
}
