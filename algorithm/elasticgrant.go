// SPDX-License-Identifier: Apache-2.0

package algorithm

import "math"

// grant decides what row's host may do. All sums are without its grant. Begins says
// that it had no demand until now, saved what it has left of what it had, and cost
// what its largest events cost.
func (k *elasticKey) grant(row *elasticRow, limit Limit, begins bool, saved, cost float64) Grant {
	p := k.params
	// Debt is paid back by all; what is too much in the pool of a key that
	// is short is handed out.
	rate := math.Max(limit.Rate+math.Min(k.pool, 0)/p.Repay.Seconds(), 0)
	// What one bucket would not have left any more was missed while rates
	// followed the demand. It is made up for slowly, and over no less time
	// than a rate may run.
	if missed := k.pool - k.ideal; missed > 0 && k.wants > limit.Rate {
		rate += math.Min(missed/(silence*k.interval.Seconds()), p.CatchUp*limit.Rate)
	}
	fair := 0.0
	if row.wants > 0 {
		fair = row.wants * math.Min(rate/k.wants, p.Headroom)
	}
	room := math.Max(rate*(1+p.Crowding)-k.rates, 0)
	row.rate = math.Min(math.Min(fair, room), limit.Rate)
	k.rates += row.rate

	level := math.Min(math.Max(k.ideal, k.chance(limit, cost)), limit.Burst)
	free := math.Max(math.Min(k.pool, level), 0)
	// Tokens are for what the rate does not cover, and for chance.
	need := math.Max(row.wants-row.rate, 0)*p.Horizon.Seconds() + math.Sqrt(row.wants*p.Horizon.Seconds()*cost)
	if row.wants > 0 {
		need += 2 * (cost - 1) // a cost is paid at once
	}
	if begins {
		need = math.Max(need, p.Chunk*free)
	}
	row.lent = math.Max(min(need, p.Part*free, p.Lent*limit.Burst-k.lent), 0)
	if free < keep*cost && row.wants > 0 {
		// A host with few events saves its rate up until it is worth one.
		row.lent = math.Max(row.lent, math.Min(saved, keep*cost))
	}
	k.lent += row.lent
	k.pool -= row.lent

	// All hosts together hold the starter, unless there is nothing to start.
	starter := math.Min(p.starter(limit, len(k.index), cost), free)
	tokens := row.lent + starter
	return Grant{
		Weight: ratio(row.rate, limit.Rate),
		Burst:  math.Min(math.Max(tokens+row.rate*p.Horizon.Seconds(), keep*cost), math.Max(limit.Burst, 1)),
		Used:   math.Max(k.used, 0),
		Tokens: math.Min(tokens, limit.Burst),
	}
}

const (
	// quiet is less demand than any to speak of, events/s.
	quiet = 0.5

	// keep is how many events' worth of its rate a host may save up.
	keep = 2
)

// ratio is part of whole, in [0, 1].
func ratio(part, whole float64) float64 {
	if !(whole > 0) {
		return 0
	}
	return math.Min(math.Max(part/whole, 0), 1)
}

// chance is how many tokens one bucket holds on average when demand is at the
// limit or above it, because events do not come evenly: the mean of a random walk
// that is drawn to an end. What is between reports cannot be seen otherwise.
func (k *elasticKey) chance(limit Limit, cost float64) float64 {
	spread := k.wants * cost // variance of demand, per second
	most := math.Sqrt(spread * k.interval.Seconds())
	mean := math.Min(spread/(2*math.Max(k.wants-limit.Rate, 1e-9)), most)
	if mean < keep*cost {
		return 0 // too little to hand out
	}
	return mean
}
