// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"math"
	"time"
)

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
	// measured and are known late: while nobody else wants it, the host gets
	// up to a tenth on top of them. Slots have none.
	Headroom bool
}

// Capacity is what a key's leases are parts of.
type Capacity struct {
	// Amount is all of it, in events/s or slots; finite, ≥ 0. Zero allows
	// nothing.
	Amount float64
	// Whole says that it comes in slots: only whole amounts are leased.
	Whole bool
	// Overcommit is the part of Amount that may be leased beyond it; ≥ 0.
	// Zero hands nothing out twice. More gives newcomers something before
	// others have given it back.
	Overcommit float64
}

// Terms are for how long, and how often, a capacity is leased.
type Terms struct {
	// Lease is for how long a grant is good; > 0. Zero grants nothing.
	Lease time.Duration
	// Remember is for how long what a host wants counts after it has claimed,
	// also when its lease has ended; what is less than Lease is as Lease. It
	// matters where leases are shorter than they could be: a host that asks
	// again is then not one that nobody knows.
	Remember time.Duration
	// Recalculate is after how long asking again may change the answer; ≥ 0.
	Recalculate time.Duration
	// LearnUntil is until when hosts get what they say they have, because
	// leases of an earlier owner may be out that this one does not know of. It
	// is a time of the same clock as now.
	LearnUntil time.Duration
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
}

const (
	// maxWants keeps sums of wants finite for as many hosts as there may be.
	maxWants = 1e300

	// maxClients keeps sums of clients exact.
	maxClients = math.MaxUint32

	// maxAmount is more than any capacity. What is more than that counts as
	// that: it leaves nothing for others either way.
	maxAmount = 1 << 53

	// headroom is the part of what a host wants that it may get on top.
	headroom = 0.1

	// nearly makes up for what rounding does to sums.
	nearly = 1 - 1e-9

	// wholly is how near to a whole number a slot may be, because weights
	// and rates were multiplied on its way here.
	wholly = 1e-6
)

// clean is b with numbers that can be calculated with.
func (b Band) clean() Band {
	b.Clients = min(max(b.Clients, 1), maxClients)
	b.Wants = within(b.Wants, maxWants)
	return b
}

// thirst is what b wants per client: the order in which a rising level of
// water reaches what each wants.
func (b Band) thirst() float64 { return b.Wants / float64(b.Clients) }

// clean is c with numbers that can be calculated with.
func (c Capacity) clean() Capacity {
	c.Amount = within(c.Amount, maxAmount)
	c.Overcommit = within(c.Overcommit, maxAmount)
	if c.Whole {
		c.Amount = math.Floor(c.Amount + wholly)
	}
	return c
}

// most is how much may be leased at a time.
func (c Capacity) most() float64 { return min(c.Amount*(1+c.Overcommit), maxAmount) }

// up is x, rounded up to whole slots if c has slots.
func (c Capacity) up(x float64) float64 {
	if c.Whole {
		return max(math.Ceil(x-wholly), 0)
	}
	return x
}

// within is x in [0, most]; what is no number is 0.
func within(x, most float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, most)
}
