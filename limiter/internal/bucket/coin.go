// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"math"
	"sync/atomic"
)

// coin decides by chance which events an unlimited bucket refuses.
type coin struct {
	pass atomic.Uint32 // of 2³² events, how many pass
	salt atomic.Uint32
}

// passAll lets every event pass.
const passAll = math.MaxUint32

// SetPass has an unlimited bucket let only a part of all events pass, in
// [0, 1], by chance. 1 or more lets all pass.
func (c *coin) SetPass(part float64) {
	pass := uint32(passAll)
	if part < 1 {
		pass = uint32(min(max(part, 0)*(1<<32), passAll-1))
	}
	if c.pass.Load() != pass {
		c.pass.Store(pass)
	}
}

// SetSalt sets where the coin begins. Call it before the bucket is used.
func (c *coin) SetSalt(salt uint64) { c.salt.Store(uint32(salt)) }

// skip moves on by n numbers, because n tokens are no longer counted: later events must not
// get numbers that have let events pass.
func (c *coin) skip(n int64) { c.salt.Add(uint32(n)) }

// Drops reports whether an unlimited bucket refuses a part of all events.
func (c *coin) Drops() bool { return c.pass.Load() != passAll }

// Passes is the part of all events that pass, in [0, 1].
func (c *coin) Passes() float64 {
	if pass := c.pass.Load(); pass != passAll {
		return float64(pass) / (1 << 32)
	}
	return 1
}

// toss reports whether to refuse an event after so many tokens were counted.
// A hash of their number decides, so that a repeated run refuses the same events.
func (c *coin) toss(total int64) bool {
	pass := c.pass.Load()
	return pass != passAll && uint32(Mix(uint64(total)+uint64(c.salt.Load()))) >= pass
}

// Mix is a hash of x.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
