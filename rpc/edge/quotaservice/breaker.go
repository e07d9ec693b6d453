// SPDX-License-Identifier: Apache-2.0

package quotaservice

import (
	"sync"
	"time"
)

// breaker says whether to ask somebody who may be away. It is closed, which
// lets all ask, until most questions in a row had no answer; then it is open
// for probe and a random part more; then it lets one ask, whose answer closes
// it, or else it is open again. It has no clock.
type breaker struct {
	most   int
	probe  time.Duration
	random func() float64 // in [0, 1)

	mu       sync.Mutex // protects following fields
	failures int        // in a row
	open     bool
	until    time.Time // when it is open, the time of the next probe
	probing  bool      // one asks
	era      int       // counts openings and closings
}

// question is one that the breaker let through.
type question struct {
	era   int
	probe bool
}

// enter says whether to ask. Each question ends with leave or abandon.
func (b *breaker) enter(now time.Time) (question, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	switch {
	case !b.open:
		return question{b.era, false}, true
	case b.probing || now.Before(b.until):
		return question{}, false
	}
	b.probing = true
	return question{b.era, true}, true
}

// leave says what became of q, and tells whether that opened a closed breaker.
// What began before the last change says nothing.
func (b *breaker) leave(q question, now time.Time, answered bool) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if q.era != b.era {
		return false
	}
	if q.probe {
		b.probing = false
	}
	if answered {
		if b.failures = 0; b.open {
			b.open = false
			b.era++
		}
		return false
	}
	if b.failures++; b.failures < b.most && !b.open {
		return false
	}
	opened = !b.open
	b.open = true
	b.era++
	b.until = now.Add(b.probe + time.Duration(b.random()*float64(b.probe)/2))
	return opened
}

// abandon ends q without saying anything.
func (b *breaker) abandon(q question) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if q.probe && q.era == b.era {
		b.probing = false
	}
}
