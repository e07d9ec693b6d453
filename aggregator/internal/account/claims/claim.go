// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"math"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
)

// Band is as in the contract.
type Band = account.Band

// Claim is as in the contract.
type Claim = account.Claim

// Lease is as in the contract.
type Lease = account.Lease

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
	// also when its lease has ended; what is less than Lease is as Lease, and what is
	// more than 18 hours beyond it is as 18 hours. It
	// matters where leases are shorter than they could be: a host that asks
	// again is then still known.
	Remember time.Duration
	// Recalculate is after how long asking again may change the answer; ≥ 0.
	Recalculate time.Duration
	// LearnUntil is until when hosts get what they say they have, because
	// leases of an earlier owner may be out that this one does not know of. It
	// is a time of the same clock as now.
	LearnUntil time.Duration
	// Part says that the host holds a part of the limit, whatever that is, and not an amount.
	Part bool
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
func clean(b Band) Band {
	b.Clients = min(max(b.Clients, 1), maxClients)
	b.Wants = atMost(b.Wants, maxWants)
	return b
}

// clean is c with numbers that can be calculated with.
func (c Capacity) clean() Capacity {
	c.Amount = atMost(c.Amount, maxAmount)
	c.Overcommit = atMost(c.Overcommit, maxAmount)
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

// down is x, rounded down to whole slots if c has slots.
func (c Capacity) down(x float64) float64 {
	if c.Whole {
		return math.Floor(x + wholly)
	}
	return x
}

// atMost is x in [0, most]; what is no number is 0.
func atMost(x, most float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, most)
}
