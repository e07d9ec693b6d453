// SPDX-License-Identifier: Apache-2.0

package account

import (
	"time"

	"github.com/headgate/headgate/rpc/claims"
)

// Band is what some clients of one priority want: as in the message. Accounts take any
// numbers in it. Fewer than 1 clients count as 1, and more than 2³²-1 as that; wants that
// are not a number or are negative count as 0, and more than 1e300 as that.
type Band = claims.Band

// Claim is what one host says about one capacity: as in the message, whose key and host
// accounts do not look at. Keep leaves the bands as they were, unless the account learns.
// With Headroom, the host gets up to a tenth on top of what it wants, and an even part of half of
// the rest while all hosts want no more than half of what there is. Slots have none.
type Claim = claims.Claim

// Wanted is what all hosts of a want, in the unit of its capacity, and for how many
// clients they speak.
func Wanted(a Account) (wants, clients float64) {
	for b := range a.Demand {
		wants += b.Wants
		clients += float64(b.Clients)
	}
	return wants, clients
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
