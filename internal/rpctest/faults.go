// SPDX-License-Identifier: Apache-2.0

package rpctest

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// Faults are the faults of a link, for messages in one direction. With the zero Faults,
// all messages arrive at once.
type Faults struct {
	// Delay is how long each message takes; Jitter is the most by which one
	// takes longer, at random, so that messages can overtake each other.
	Delay, Jitter time.Duration

	// Drop is the part of messages that are lost; in [0, 1].
	Drop float64

	// Reorder is the part of messages that are held back for a further
	// HoldBack, while later ones pass; in [0, 1].
	Reorder  float64
	HoldBack time.Duration
}

// link carries messages from one host to another. Each link has random numbers of its
// own, so that its faults do not depend on the other links' traffic.
type link struct {
	mu     sync.Mutex
	faults Faults
	cut    bool
	chance *rand.Rand
	sent   int
}

func newLink(seed uint64, from, to string) *link {
	name := fnv.New64a()
	_, _ = name.Write([]byte(from + "\x00" + to)) // a hash's Write returns no error
	return &link{chance: rand.New(rand.NewPCG(seed, name.Sum64()))}
}

// send decides how long the next message takes, or that it is lost.
func (l *link) send() (delay time.Duration, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	// Each message uses as many random numbers, so that one more fault does not
	// change all that follow.
	drop, hold, jitter := l.chance.Float64(), l.chance.Float64(), l.chance.Float64()
	if l.cut || drop < l.faults.Drop {
		return 0, true
	}
	delay = l.faults.Delay + time.Duration(jitter*float64(l.faults.Jitter))
	if hold < l.faults.Reorder {
		delay += l.faults.HoldBack
	}
	return delay, false
}
