// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sum"
)

const (
	// byDemand is the part of each host where rates are in proportion to demands.
	byDemand = -1

	// headroom is the rate of a host in relation to its demand, when there is enough
	// for all: so that noise does not make it report early.
	headroom = 1.1
)

// grant decides what row's host may do. All sums are without its grant. Saved is what the host has left of what it had, and cost what its largest events cost.
func (k *holdings) grant(row *row, limit algorithm.Limit, saved, cost float64) account.Grant {
	wants, horizon := float64(row.wants), account.Seconds(k.params.Horizon)
	rate := lower(k.fair(wants, limit), limit.Rate)
	row.weight = account.Ratio(rate, limit.Rate)
	k.parts.Add(row.weight)

	// Tokens are for what the rate does not cover, for chance, and for the next two
	// events of a host that has none yet.
	free := upper(k.pool, 0)
	need := upper(wants-rate, 0)*horizon + math.Sqrt(wants*horizon*cost) + algorithm.Keep*cost
	lent := upper(lower(lower(free, need), mostLent*limit.Burst-k.lent), 0)
	if free < algorithm.Keep*cost && wants > 0 {
		// A host with few events saves its rate up until it is worth one.
		lent = upper(lent, lower(saved, algorithm.Keep*cost))
	}
	row.lent = sum.Grains(lent)
	row.unspent = row.lent + sum.Grains(lower(free, k.starter(limit, cost)))
	k.lent += float64(row.lent)
	k.starters += float64(row.unspent - row.lent)
	k.pool -= float64(row.lent)

	tokens := float64(row.unspent)
	return account.Grant{
		Weight: row.weight,
		Burst:  lower(upper(tokens+rate*horizon, algorithm.Keep*cost), upper(limit.Burst, 1)),
		Tokens: lower(tokens, limit.Burst),
	}
}

// fair is the rate of a host that wants so much: its part, when there is not enough for all.
func (k *holdings) fair(wants float64, limit algorithm.Limit) float64 {
	if !(wants > 0) {
		return 0
	}
	rate := limit.Rate
	if k.pool < 0 { // all hosts pay a debt back
		rate = upper(rate+k.pool/account.Seconds(k.params.Repay), 0)
	}
	room := upper(limit.Rate-k.rates(limit.Rate), 0)
	if k.part >= 0 {
		return lower(room, lower(k.part*rate, wants*headroom))
	}
	return lower(room, wants*lower(rate/k.wants, headroom))
}

// starter is how many tokens a host gets beside the pool, to begin a burst with, when its largest events cost cost.
// If demand is within the limit, that is its even part of what is lent twice, or two events' worth if the burst is
// enough for all hosts, as long as the others have not got it all. A host gets one event's worth at least, so that a
// host that is hardly used lets an event pass.
func (k *holdings) starter(limit algorithm.Limit, cost float64) float64 {
	if k.wants > limit.Rate {
		return cost
	}
	hosts := float64(k.rows.Len())
	all := upper(k.params.Overcommit*limit.Burst, lower(2*cost*hosts, limit.Burst))
	return upper(lower(all/hosts, all-k.starters), cost)
}
