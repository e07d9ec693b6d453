// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"time"

	"github.com/headgate/headgate/rpc/usage"
)

// errLeft is the answer of an owner that has handed its keys over. Its grants and leases
// would be on top of those of the next owner.
var errLeft = errors.New("aggregator: this host has handed its keys over and stops: report to the next owner")

// stays returns an error, and counts a message, if a has handed its keys over.
func (a *Aggregator) stays() error {
	if !a.keys.Left.Load() {
		return nil
	}
	a.metrics.late.Inc(1)
	return errLeft
}

// handed reports whether t of host may be served, and counts it if it hands a key over.
func (c *Core) handed(now time.Duration, host string, t *usage.Take) bool {
	if !t.Handed {
		return true
	}
	if c.fence.Admits(now, host) {
		c.metrics.handed.Inc(1)
		return true
	}
	c.metrics.handedRefused.Inc(1)
	return false
}
