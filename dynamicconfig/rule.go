// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"time"

	"golang.org/x/time/rate"
)

// Rule says what a key's limit is and how it is shared. Rules are values;
// nobody changes one that is part of a Snapshot.
type Rule struct {
	// Key is an exact key or a glob. In a glob `*` stands for any run of
	// bytes, `?` for one byte, `[a-z]` and `[!a-z]` for a class, and `\`
	// takes the next byte literally. `*` matches `/` and `:` too.
	Key string

	// Limit is the cluster-wide capacity in events/s; finite, ≥ 0.
	// A zero Limit allows no events.
	Limit rate.Limit

	// Burst is the cluster-wide number of tokens a bucket may hold;
	// finite, ≥ 1, or 0 when Limit is 0. Default: one second of Limit,
	// at least 1.
	Burst float64

	// Algorithm names how the limit is shared. When a Migration is set it
	// is ignored.
	Algorithm string

	// Migration, when not nil, runs two algorithms side by side.
	Migration *Migration

	// Fallback rules while there is no valid grant.
	Fallback Fallback

	// SafeCapacity is the events/s of one host under FallbackSafe; ≥ 0.
	SafeCapacity rate.Limit

	// Lease is how long a grant may be used without a newer one; > 0.
	Lease time.Duration

	// IdleAfter is how long a key goes unused before a host forgets it
	// (once its buckets are full again); > 0.
	IdleAfter time.Duration

	// MaxKeys bounds how many keys may match a glob at once on one host; > 0.
	MaxKeys int

	// Shared: all matching keys share one bucket, whose key is the pattern.
	Shared bool

	// Description is for people.
	Description string
}

// Migration moves a key from one algorithm to another while traffic flows.
type Migration struct {
	// From and To name the old and the new algorithm.
	From, To string

	// Mode is the stage.
	Mode Mode
}

// Mode is the migration stage of a key.
type Mode uint8

const (
	// ModeDisabled bypasses the limit: all is allowed, nothing is counted.
	ModeDisabled Mode = iota
	// ModeOld uses the old limiter only.
	ModeOld
	// ModeOldShadowNew answers with the old limiter and measures the new.
	ModeOldShadowNew
	// ModeNewShadowOld answers with the new limiter and measures the old.
	ModeNewShadowOld
	// ModeNew uses the new limiter only.
	ModeNew
)

// Fallback rules a key while a host has no valid grant for it.
type Fallback uint8

const (
	// FallbackEven gives each host the limit divided by the hosts.
	FallbackEven Fallback = iota
	// FallbackOpen allows everything.
	FallbackOpen
	// FallbackClosed allows nothing.
	FallbackClosed
	// FallbackSafe gives each host the rule's SafeCapacity.
	FallbackSafe
)
