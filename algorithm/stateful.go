// SPDX-License-Identifier: Apache-2.0

package algorithm

import "time"

// Stateful is an Algorithm that keeps a state of its own for each key, for
// which moving averages are not enough. Share is then what it does with
// demands alone.
type Stateful interface {
	Algorithm

	// NewKey returns the state of a key in c that nobody has reported yet.
	NewKey(c Cluster) Key
}

// Key is the state of one key under a Stateful algorithm. It is for one
// caller at a time, and like all of this package it has no clock: now counts
// from any fixed point and does not go backwards.
type Key interface {
	// Report takes in what host did, and returns what it may do from now on;
	// false if it should go on as it is. R is only for the call.
	Report(now time.Duration, limit Limit, host uint32, r *Report) (Grant, bool)

	// Follow has hosts report every interval from now on, or as soon as they
	// have heard of it.
	Follow(now, interval time.Duration)

	// Expire forgets hosts that have been silent for too long at now, and
	// calls gone for each.
	Expire(now time.Duration, gone func(host uint32))

	// Hosts is how many hosts are known, and Knows tells whether host is.
	Hosts() int
	Knows(host uint32) bool

	// Fetch reads what Report for host will, and changes no answer. So a key's
	// memory is read ahead: the decider calls it for many keys before it calls
	// Report for the first, and does not wait for each. It returns a number of
	// host's, 0 or more, if it Knows host, and else −1. A Key that numbers its
	// hosts is fast where guess is right, which is the number of this host at
	// another key: hosts often come to many keys in the same order. Read is
	// anything, so that what is read counts as used. A Key with nothing to read
	// ahead returns −1 and 0.
	Fetch(host uint32, guess int32) (number int32, read int)
}

// Report is what one host says about a key.
type Report struct {
	// Allowed and Rejected count cost over Elapsed.
	Allowed, Rejected float64
	Elapsed           time.Duration

	// Wants is the host's demand in events/s.
	Wants float64

	// Cost is the largest cost that was asked for at once lately; ≥ 1.
	Cost float64

	// Has is the weight that the host now has; 0 if it has no valid grant.
	Has float64

	// Elsewhere says that another algorithm granted what the host has: the
	// rules have changed, and one of the two has not heard of it. The host's
	// use and what it has count, and it gets nothing.
	Elsewhere bool

	// Overlaps is set by Report: an earlier report of this host covered a part
	// of Elapsed. An answer was lost, a key is named twice in a report, or two
	// hosts have one name. Each report counts with the part that is new, as
	// far as that can be told.
	Overlaps bool
}

// Overlap is by how much more time than has passed a report may be about, because
// clocks and networks are not even.
const Overlap = 50 * time.Millisecond
