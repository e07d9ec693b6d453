// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/rpc/usage"
)

const (
	// formerFor is for how long a host that is off the ring may still hand keys over: it
	// is off the ring when it leaves, and its last messages may come after that.
	formerFor = 30 * time.Second
	// maxFormer bounds how many earlier rings are remembered.
	maxFormer = 8
)

// fence tells who may hand keys over: the members of the ring, and those who were
// members lately. The zero fence knows no ring, and lets everyone. It is safe for
// concurrent use.
type fence struct {
	rings atomic.Pointer[[]epoch] // the latest first; what it points to does not change
}

// epoch is one ring, from when it came until the next one did.
type epoch struct {
	member func(host string) bool
	ended  time.Duration // 0 for the latest
}

// move puts a ring with these members in force at now. Calls come one after the other.
func (f *fence) move(now time.Duration, member func(host string) bool) {
	if member == nil {
		return
	}
	rings := []epoch{{member: member}}
	for i, e := range f.known() {
		if i == 0 {
			e.ended = now
		}
		if now-e.ended <= formerFor && len(rings) <= maxFormer {
			rings = append(rings, e)
		}
	}
	f.rings.Store(&rings)
}

// known are the rings that f knows.
func (f *fence) known() []epoch {
	if rings := f.rings.Load(); rings != nil {
		return *rings
	}
	return nil
}

// admits tells whether host may hand keys over at now.
func (f *fence) admits(now time.Duration, host string) bool {
	rings := f.known()
	for i, e := range rings {
		if (i == 0 || now-e.ended <= formerFor) && e.member(host) {
			return true
		}
	}
	return len(rings) == 0
}

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

// handed tells whether t of host may be served, and counts it if it hands a key over.
func (c *Core) handed(now time.Duration, host string, t *usage.Take) bool {
	if !t.Handed {
		return true
	}
	if c.fence.admits(now, host) {
		c.metrics.handed.Inc(1)
		return true
	}
	c.metrics.handedRefused.Inc(1)
	return false
}
