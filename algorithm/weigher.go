// SPDX-License-Identifier: Apache-2.0

package algorithm

// Weigher is a Weigh, and what accounts must know of it.
type Weigher struct {
	Weigh Weigh

	// Form says how an account can do what Weigh does without a look at all
	// hosts; FormPlain if it cannot.
	Form Form

	// Floor is how much hosts may take above their part; on the average account
	// only.
	Floor Floor

	// Only is the account that the Weigher is for; empty if it runs on each.
	Only string
}

// Form is how a weigher that comes with headgate is computed for one host: from
// that host's demand, and from what accounts keep about all demands. Each is the
// same as a Weigh, which tests compare it with.
type Form uint8

const (
	// FormPlain weighs all hosts at once.
	FormPlain Form = iota
	// FormDemand is RequestWeighted.
	FormDemand
	// FormFair is FairShare.
	FormFair
	// FormProportional is ProportionalShare.
	FormProportional
	// FormStatic is Static.
	FormStatic
	// FormNone is None.
	FormNone
)

// Floor is how much a host may take above its weighted part of the limit.
type Floor uint8

const (
	// FloorNone is nothing: exactly the weighted part.
	FloorNone Floor = iota
	// FloorUnused is for a host below the even share what the cluster leaves
	// unused, up to the even share.
	FloorUnused
	// FloorEven is the even share: never below it. It is there to be compared
	// with: with many hosts that have little weight it lends the limit twice, and
	// nothing bounds that but the even shares of all hosts.
	FloorEven
	// FloorDrop is no share at all: the weight is the part of its events that
	// a host lets through, by chance.
	FloorDrop
)
