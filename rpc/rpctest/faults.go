// SPDX-License-Identifier: Apache-2.0

package rpctest

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// Faults is what goes wrong on a link, for messages in one direction. The
// zero Faults delivers everything at once.
type Faults struct {
	// Delay is how long each message takes; Jitter is the most by which one
	// takes longer, at random. Messages overtake each other within it.
	Delay, Jitter time.Duration

	// Drop is the part of messages that are lost; in [0, 1].
	Drop float64

	// Reorder is the part of messages that are held back for a further
	// HoldBack, while later ones pass; in [0, 1].
	Reorder  float64
	HoldBack time.Duration
}

// link is the way from one host to another. Its chance is its own, so that
// what happens on it does not depend on the other links' traffic.
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

// send decides the fate of the next message: how long it takes, or that it is lost.
func (l *link) send() (delay time.Duration, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	// The same draws for every message, whatever its fate, so that a fault
	// more or less does not shift all the others.
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
