// SPDX-License-Identifier: Apache-2.0

package breaker_test

import (
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/breaker"
)

// trace drives a breaker by hand, at times in milliseconds.
type trace struct {
	*testing.T
	b *breaker.Breaker
}

func (t trace) begin(ms int, want bool) breaker.Call {
	t.Helper()
	at := time.Duration(ms) * time.Millisecond
	if t.b.Ready(at) != want {
		t.Fatalf("at %d ms: Ready is %v", ms, !want)
	}
	call, ok := t.b.Begin(at)
	if ok != want {
		t.Fatalf("at %d ms: Begin says %v", ms, ok)
	}
	return call
}

func (t trace) end(call breaker.Call, ms int, o breaker.Outcome, want breaker.Change) {
	t.Helper()
	if got := t.b.End(call, time.Duration(ms)*time.Millisecond, o); got != want {
		t.Fatalf("at %d ms: change %d, want %d", ms, got, want)
	}
}

func TestFailuresInARowOpenAndAProbeCloses(t *testing.T) {
	random := 0.0
	c := trace{t, breaker.New(breaker.Config{Failures: 2, Pause: time.Second, Jitter: 500 * time.Millisecond, Random: func() float64 { return random }})}
	c.end(c.begin(0, true), 0, breaker.Failure, breaker.Unchanged)
	c.end(c.begin(0, true), 0, breaker.Success, breaker.Unchanged) // ends the row
	late := c.begin(0, true)
	c.end(c.begin(0, true), 0, breaker.Failure, breaker.Unchanged)
	c.end(c.begin(0, true), 0, breaker.Neither, breaker.Unchanged) // does not
	c.end(c.begin(0, true), 0, breaker.Failure, breaker.Opened)
	c.end(late, 0, breaker.Success, breaker.Unchanged) // began before it opened
	c.end(breaker.Call{}, 0, breaker.Success, breaker.Unchanged)
	c.begin(999, false)
	probe := c.begin(1000, true)
	c.begin(1000, false) // one at a time
	random = 0.999
	c.end(probe, 1000, breaker.Failure, breaker.Unchanged)
	c.begin(2499, false)
	c.end(c.begin(2500, true), 2500, breaker.Neither, breaker.Unchanged)
	c.end(c.begin(2500, true), 2500, breaker.Success, breaker.Closed)
	c.end(c.begin(2500, true), 2500, breaker.Failure, breaker.Unchanged) // a new row
	c.begin(2500, true)
	c.begin(2500, true)
}

func TestAPauseThatFailsManyCallsCountsOnceWhereRowsAreDistinct(t *testing.T) {
	c := trace{t, breaker.New(breaker.Config{Failures: 2, Distinct: true, Pause: time.Second})}
	first, second := c.begin(0, true), c.begin(5, true)
	c.end(first, 10, breaker.Failure, breaker.Unchanged)
	c.end(second, 15, breaker.Failure, breaker.Unchanged)
	third := c.begin(10, true)
	c.end(third, 20, breaker.Failure, breaker.Opened)
}

func TestAPartOfRecentCallsOpens(t *testing.T) {
	c := trace{t, breaker.New(breaker.Config{Ratio: 0.5, RatioFailures: 3, Window: time.Second, Pause: time.Second})}
	for i, o := range []breaker.Outcome{breaker.Failure, breaker.Success, breaker.Failure, breaker.Success, breaker.Success, breaker.Success} {
		c.end(c.begin(i, true), i, o, breaker.Unchanged)
	}
	c.end(c.begin(10, true), 10, breaker.Failure, breaker.Unchanged)     // 3 of 7
	c.end(c.begin(1000, true), 1000, breaker.Failure, breaker.Unchanged) // those before 100 ms are forgotten: 1 of 1
	c.end(c.begin(1010, true), 1010, breaker.Success, breaker.Unchanged)
	c.end(c.begin(1020, true), 1020, breaker.Success, breaker.Unchanged)
	c.end(c.begin(1030, true), 1030, breaker.Success, breaker.Unchanged)
	c.end(c.begin(1040, true), 1040, breaker.Failure, breaker.Unchanged) // 2 of 5
	c.end(c.begin(1050, true), 1050, breaker.Failure, breaker.Opened)    // 3 of 6
}

// A clock may count from a point in the future.
func TestSlotsBeforeTheZeroTimeAreAsLongAsOthers(t *testing.T) {
	c := trace{t, breaker.New(breaker.Config{Ratio: 1, RatioFailures: 2, Window: time.Second, Pause: time.Second})}
	c.end(c.begin(-50, true), -50, breaker.Failure, breaker.Unchanged)
	c.end(c.begin(950, true), 950, breaker.Failure, breaker.Unchanged) // the slot of -50 has left
	c.end(c.begin(960, true), 960, breaker.Failure, breaker.Opened)
}

func TestSeveralProbesAtOnce(t *testing.T) {
	c := trace{t, breaker.New(breaker.Config{Failures: 1, Pause: time.Second, Probes: 3})}
	c.end(c.begin(0, true), 0, breaker.Failure, breaker.Opened)
	one, two, three := c.begin(1000, true), c.begin(1000, true), c.begin(1000, true)
	c.begin(1000, false)
	c.end(one, 1001, breaker.Success, breaker.Unchanged)
	c.begin(1001, false) // a success keeps its place
	c.end(two, 1002, breaker.Neither, breaker.Unchanged)
	four := c.begin(1002, true) // a probe without an outcome does not
	c.end(three, 1003, breaker.Success, breaker.Unchanged)
	c.end(four, 1004, breaker.Success, breaker.Closed)

	c.end(c.begin(2000, true), 2000, breaker.Failure, breaker.Opened)
	one, two = c.begin(3000, true), c.begin(3000, true)
	c.end(one, 3000, breaker.Failure, breaker.Unchanged)
	c.end(two, 3000, breaker.Success, breaker.Unchanged) // the other one opened it again
	c.begin(3999, false)
	c.begin(4000, true)
}

// For the race detector: of all that ask at once while it is half-open, one passes.
func TestOneOfManyIsTheProbe(t *testing.T) {
	b := breaker.New(breaker.Config{Failures: 1, Pause: time.Second})
	for round := range time.Duration(100) {
		now := round * time.Minute
		call, ok := b.Begin(now)
		if !ok || b.End(call, now, breaker.Failure) != breaker.Opened {
			t.Fatalf("round %d: a failure does not open it", round)
		}
		now += time.Second
		probes := make(chan breaker.Call, 8)
		var all sync.WaitGroup
		for range cap(probes) {
			all.Go(func() {
				if call, ok := b.Begin(now); ok {
					probes <- call
				}
			})
		}
		all.Wait()
		if len(probes) != 1 || b.End(<-probes, now, breaker.Success) != breaker.Closed {
			t.Fatalf("round %d: %d probes", round, len(probes)+1)
		}
	}
}
