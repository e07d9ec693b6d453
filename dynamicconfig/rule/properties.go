// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"iter"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

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

// Fields are p's fields as a config file writes them, see Rule.Fields. p is
// of a Snapshot.
func (p Properties) Fields() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		_ = yield("update_interval", quantity.Duration(p.UpdateInterval)) &&
			yield("update_timeout", quantity.Duration(p.UpdateTimeout)) &&
			yield("new_data_weight", p.NewDataWeight) &&
			yield("decay_after", quantity.Duration(p.DecayAfter)) &&
			yield("gc_after", quantity.Duration(p.GCAfter)) &&
			yield("max_owned_keys", int64(p.MaxKeys)) &&
			yield("max_hosts_per_key", int64(p.MaxHostsPerKey))
	}
}
