// SPDX-License-Identifier: Apache-2.0

package account

import "time"

// Band is what some clients of one priority want.
type Band struct {
	// Priority orders bands: higher ones are served first. Any number.
	Priority int64
	// Clients is for how many the claimant speaks; ≥ 1. Shares are by
	// client, so a host that speaks for ten gets ten parts. Less than 1
	// counts as 1, and more than 2³²-1 as that.
	Clients int64
	// Wants is what all of them want together, in the unit of the capacity;
	// finite, ≥ 0. Not a number and negative count as 0, and more than 1e300
	// as that.
	Wants float64
}

// Wanted is what all hosts of a want, in the unit of its capacity, and for how many
// clients they speak.
func Wanted(a Account) (wants, clients float64) {
	for b := range a.Demand {
		wants += b.Wants
		clients += float64(b.Clients)
	}
	return wants, clients
}

// Claim is what one host says about one capacity.
type Claim struct {
	// Has is how much of it the host now holds, by an earlier grant that is
	// still good; finite, ≥ 0.
	Has float64
	// Bands is what it wants, by priority, in any order. Bands of one
	// priority add up.
	Bands []Band
	// Keep asks for what the host has, for longer: a decider below that
	// still learns does not know yet what it wants. Bands are then left as
	// they were, unless this account learns too.
	Keep bool
	// Headroom says that more than Bands may be of use, because they were
	// measured and are known late: while no other host wants it, the host gets
	// up to a tenth on top of them. Slots have none.
	Headroom bool
}

// Terms are for how long, and how often, an amount is leased.
type Terms struct {
	// Lease is for how long a grant is good; > 0. Zero grants nothing.
	Lease time.Duration
	// Recalculate is after how long asking again may change the answer; ≥ 0.
	Recalculate time.Duration
	// Waits says that the cluster above has not said yet what there is.
	Waits bool
}

// Lease is what one host holds.
type Lease struct {
	// Amount is how much, in the unit of the capacity; finite, ≥ 0.
	Amount float64
	// Until is when it ends, by the clock of now.
	Until time.Duration
	// Learning says that nothing was decided: Amount is what the host had.
	Learning bool
	// Short says that Amount is less than the host's target, because others
	// still hold the rest: asking again soon may bring more.
	Short bool
	// Invalid says that the weigher made no number of the host's part, so that it
	// has none.
	Invalid bool
}
