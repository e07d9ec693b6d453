// SPDX-License-Identifier: Apache-2.0

// Package fence says which hosts may hand keys over to an owner. It knows the names of hosts, and
// no keys.
package fence

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// formerFor is for how long a host that is off the ring may still hand keys over: it
	// is off the ring when it leaves, and its last messages may come after that.
	formerFor = 30 * time.Second
	// maxFormer bounds how many earlier rings are remembered. Of more, the oldest and the
	// latest are: when many hosts leave together, all of them are on the oldest one.
	maxFormer = 8
)

// Fence lets the members of the ring hand keys over, and those who were members recently.
// The zero Fence knows no ring, and lets everyone. It is safe for concurrent use.
type Fence struct {
	rings atomic.Pointer[[]epoch] // the latest first; what it points to does not change
}

// epoch is one ring, from when it came until the next one did.
type epoch struct {
	member func(host string) bool
	ended  time.Duration // latest if it has not
}

// latest is the end of the ring that is in force.
const latest = math.MaxInt64

// counts reports whether the members of e may hand keys over at now.
func (e epoch) counts(now time.Duration) bool { return now-e.ended <= formerFor }

// Move puts a ring with these members in force at now. A nil member changes nothing. Only
// one call may run at a time.
func (f *Fence) Move(now time.Duration, member func(host string) bool) {
	if member == nil {
		return
	}
	rings := []epoch{{member, latest}}
	for i, e := range f.known() {
		if i == 0 {
			e.ended = now
		}
		if e.counts(now) {
			rings = append(rings, e)
		}
	}
	if len(rings) > maxFormer+1 {
		rings = slices.Delete(rings, maxFormer, len(rings)-1)
	}
	f.rings.Store(&rings)
}

// known returns the rings that f remembers, the latest first. Before the first Move there
// are none.
func (f *Fence) known() []epoch {
	if rings := f.rings.Load(); rings != nil {
		return *rings
	}
	return nil
}

// Admits reports whether host may hand keys over at now.
func (f *Fence) Admits(now time.Duration, host string) bool {
	rings := f.known()
	for _, e := range rings {
		if e.counts(now) && e.member(host) {
			return true
		}
	}
	return len(rings) == 0
}
