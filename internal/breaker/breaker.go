// SPDX-License-Identifier: Apache-2.0

// Package breaker stops asking a server that does not answer, until a probe
// shows that it is back.
//
//	          too many failures
//	┌──────▶ closed ──────────▶ open ◀────────┐
//	│     all calls pass   no call passes     │ one fails
//	│                           │ after Pause │
//	│ Probes calls succeed      ▼             │
//	└───────────────────── half-open ─────────┘
//	                    Probes calls pass
//
// A caller brackets each call with Begin and End:
//
//	call, ok := b.Begin(now)
//	if !ok {
//		return errNotAsked
//	}
//	err := ask(ctx)
//	b.End(call, now, outcome) // Success, Failure or Neither
//
// The package has no clock, starts no goroutine, and does not know what a call
// is. The caller passes the time, counted from any fixed point.
package breaker

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Config says when a Breaker opens and closes.
type Config struct {
	// Failures in a row open the breaker. 0: a row of failures does not.
	Failures int

	// Distinct counts failures in a row once if their calls overlap: a call
	// that began before the last counted failure ended does not count. One
	// pause of the server fails every call that runs into it.
	Distinct bool

	// Ratio is the part of calls, in (0, 1], that opens the breaker when it
	// fails within Window and at least RatioFailures calls fail. A Window of 0
	// disables this. The breaker forgets a tenth of the window at a time.
	Ratio         float64
	RatioFailures int
	Window        time.Duration

	// Pause is how long the breaker stays open. A random duration in
	// [0, Jitter) is added.
	Pause, Jitter time.Duration

	// Probes is how many calls pass while the breaker is half-open, and how
	// many of them must succeed to close it. 0 means 1.
	Probes int

	// Random returns numbers in [0, 1) for Jitter; default rand.Float64. It
	// is called under the breaker's lock.
	Random func() float64
}

// Outcome says how a call ended.
type Outcome uint8

const (
	// Neither says nothing about the server: for example, the caller left
	// before the server could answer. It is the zero Outcome.
	Neither Outcome = iota
	// Success means that the server answered.
	Success
	// Failure means that the server did not answer.
	Failure
)

// Change is what End did to the breaker.
type Change uint8

const (
	// Unchanged includes a failed probe, after which the breaker stays open.
	Unchanged Change = iota
	// Opened means that a closed breaker opened.
	Opened
	// Closed means that a half-open breaker closed.
	Closed
)

// Call is one call that Begin let pass. End ignores the zero Call.
type Call struct {
	era   uint64
	began time.Duration
}

// Breaker decides whether a server is asked. Use New. It is safe for
// concurrent use.
type Breaker struct {
	config Config

	mu       sync.Mutex    // protects following fields
	era      uint64        // goes up with each opening and closing; End ignores calls of other eras
	open     bool          // open or half-open
	until    time.Duration // when open, the time from which probes pass
	probing  int           // probes that have begun and not ended
	passed   int           // probes that succeeded in this era
	row      int           // failures in a row
	failedAt time.Duration // end of the last failure in the row that counted
	recent   window
}

// New returns a closed Breaker.
func New(c Config) *Breaker {
	c.Probes = max(c.Probes, 1)
	if c.Random == nil {
		c.Random = rand.Float64
	}
	// Era 0 is that of the zero Call.
	return &Breaker{config: c, era: 1, failedAt: math.MinInt64}
}

// Begin reports whether a call may be made now. The caller ends each call that
// may, exactly once, with End: a probe that never ends keeps others out.
func (b *Breaker) Begin(now time.Duration) (Call, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if !b.readyLocked(now) {
		return Call{}, false
	}
	if b.open {
		b.probing++
	}
	return Call{b.era, now}, true
}

// Ready reports whether Begin would let a call pass now.
func (b *Breaker) Ready(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.readyLocked(now)
}

func (b *Breaker) readyLocked(now time.Duration) bool {
	return !b.open || now >= b.until && b.probing+b.passed < b.config.Probes
}

// End reports to the breaker how c ended. A call that began before the breaker
// last opened or closed says nothing.
func (b *Breaker) End(c Call, now time.Duration, o Outcome) Change {
	b.mu.Lock()
	defer b.mu.Unlock()

	if c.era != b.era {
		return Unchanged
	}
	if b.open {
		return b.endProbeLocked(now, o)
	}
	if o == Neither {
		return Unchanged
	}
	if b.config.Window > 0 {
		b.recent.add(slotOf(now, b.config.Window), o == Failure)
	}
	switch {
	case o == Success:
		b.row = 0
		return Unchanged
	case !b.config.Distinct || c.began >= b.failedAt:
		b.row++
		b.failedAt = now
	}
	if !b.tooManyLocked(now) {
		return Unchanged
	}
	b.openLocked(now)
	return Opened
}

func (b *Breaker) endProbeLocked(now time.Duration, o Outcome) Change {
	b.probing--
	switch o {
	case Failure:
		b.openLocked(now)
	case Success:
		if b.passed++; b.passed == b.config.Probes {
			b.nextEraLocked()
			b.open = false
			return Closed
		}
	}
	return Unchanged
}

// tooManyLocked reports whether there were enough failures to open.
func (b *Breaker) tooManyLocked(now time.Duration) bool {
	c := &b.config
	if c.Failures > 0 && b.row >= c.Failures {
		return true
	}
	if c.Window <= 0 {
		return false
	}
	ended, failed := b.recent.sum(slotOf(now, c.Window))
	return failed >= c.RatioFailures && float64(failed) >= c.Ratio*float64(ended)
}

func (b *Breaker) openLocked(now time.Duration) {
	b.nextEraLocked()
	b.open = true
	b.until = now + b.config.Pause + time.Duration(b.config.Random()*float64(b.config.Jitter))
}

func (b *Breaker) nextEraLocked() {
	b.era++
	b.probing, b.passed, b.row, b.failedAt, b.recent = 0, 0, 0, math.MinInt64, window{}
}
