// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// Simulation is the clock, the goroutines and the network of a Taker that a
// simulator runs. The simulator decides which of its coroutines goes on, and when.
// Services do not need it.
type Simulation interface {
	// Now counts from any fixed point.
	Now() time.Duration

	// Later calls f after d, as a call in the background: no take waits for f.
	Later(d time.Duration, f func())

	// Waker returns what one caller of the Taker waits with.
	Waker() Waker

	// Ask sends payload to owner and waits for the answer, for at most timeout.
	Ask(owner string, timeout time.Duration, payload *anypb.Any) (*anypb.Any, error)
}

// Waker lets one caller wait until another one wakes it. There is at most one
// Wake for each wait.
type Waker interface {
	// Wake ends a Wait, or the next one. It does not block.
	Wake()

	// Wait waits for Wake.
	Wait()

	// WaitFor waits for Wake, for at most d, and reports whether it came.
	WaitFor(d time.Duration) bool
}

// Simulate has t run in s, under this number as a caller, which is not 0. The
// caller has not used t yet. The takes of a simulated Taker do not end with their
// context.
func (t *Taker) Simulate(s Simulation, number uint64) {
	t.simulation = s
	t.own.Store(number)
}

// began is what now counts from.
var began = time.Now()

// now is the time for queues and answers.
func (t *Taker) now() time.Duration {
	if t.simulation != nil {
		return t.simulation.Now()
	}
	return time.Since(began)
}

func (t *Taker) waker() Waker {
	if t.simulation != nil {
		return t.simulation.Waker()
	}
	return make(goWaker, 1)
}

// goWaker is the Waker of a goroutine.
type goWaker chan struct{}

func (w goWaker) Wake() { w <- struct{}{} }
func (w goWaker) Wait() { <-w }

func (w goWaker) WaitFor(d time.Duration) bool {
	select {
	case <-w:
		return true
	case <-time.After(d):
		return false
	}
}
