// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import "time"

// Properties are the cluster-wide settings that are not about one key.
// Every host and every owner of one cluster must have the same.
type Properties struct {
	// UpdateInterval is how often a host reports; in [100ms, 1h], default 3s.
	// Longer is cheaper and slower to follow a change of load.
	UpdateInterval time.Duration

	// UpdateTimeout bounds one call to an owner; > 0, at most
	// UpdateInterval, default the smaller of 1s and UpdateInterval.
	UpdateTimeout time.Duration

	// NewDataWeight is how much of a host's newest usage enters its moving
	// average; in (0, 1], default 0.5. Higher follows faster and jitters more.
	NewDataWeight float64

	// DecayAfter is the age at which a silent host's usage begins to decay;
	// > 0, default 2 × UpdateInterval.
	DecayAfter time.Duration

	// GCAfter is the age at which a silent host is forgotten; at least
	// DecayAfter, default 10 × UpdateInterval.
	GCAfter time.Duration

	// MaxKeys bounds the keys that one owner keeps; > 0, default 1,000,000.
	MaxKeys int

	// MaxHostsPerKey bounds the hosts that one owner keeps for a key; > 0,
	// default 10,000.
	MaxHostsPerKey int
}
