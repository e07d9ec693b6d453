// SPDX-License-Identifier: Apache-2.0

package breaker_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/breaker"
)

// model is a breaker that keeps the whole history, and decides by reading it.
type model struct {
	config  breaker.Config
	history []*event
	opened  time.Duration // the time of the last opening
	isOpen  bool
	ends    int // calls that have ended
}

// event is a call, or a change from open to closed or back.
type event struct {
	change       bool
	began, ended time.Duration
	done         bool
	outcome      breaker.Outcome
	order        int // in which calls ended
}

// current are the calls that began after the last change.
func (m *model) current() []*event {
	for i, e := range slices.Backward(m.history) {
		if e.change {
			return m.history[i+1:]
		}
	}
	return m.history
}

// ended are the current calls that ended with a success or a failure, in the
// order in which they ended.
func (m *model) ended() []*event {
	var ended []*event
	for _, e := range m.current() {
		if e.done && e.outcome != breaker.Neither {
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, func(x, y *event) int { return x.order - y.order })
	return ended
}

func (m *model) begin(now time.Duration) (*event, bool) {
	if m.isOpen {
		places := m.config.Probes
		for _, e := range m.current() {
			if !e.done || e.outcome == breaker.Success {
				places--
			}
		}
		if now < m.opened+m.config.Pause || places <= 0 {
			return nil, false
		}
	}
	e := &event{began: now}
	m.history = append(m.history, e)
	return e, true
}

func (m *model) end(e *event, now time.Duration, o breaker.Outcome) breaker.Change {
	e.done, e.ended, e.outcome = true, now, o
	e.order = m.ends
	m.ends++
	isCurrent := slices.Contains(m.current(), e)
	change := func(open bool, c breaker.Change) breaker.Change {
		m.isOpen, m.opened = open, now
		m.history = append(m.history, &event{change: true})
		return c
	}
	switch {
	case !isCurrent || o == breaker.Neither:
		return breaker.Unchanged
	case m.isOpen && o == breaker.Failure:
		return change(true, breaker.Unchanged)
	case m.isOpen && len(m.ended()) == m.config.Probes:
		return change(false, breaker.Closed)
	case !m.isOpen && o == breaker.Failure && (m.tooManyInARow() || m.tooLargeAPart(now)):
		return change(true, breaker.Opened)
	}
	return breaker.Unchanged
}

func (m *model) tooManyInARow() bool {
	row, last := 0, time.Duration(math.MinInt64)
	for _, e := range m.ended() {
		switch {
		case e.outcome == breaker.Success:
			row = 0
		case !m.config.Distinct || e.began >= last:
			row++
			last = e.ended
		}
	}
	return m.config.Failures > 0 && row >= m.config.Failures
}

func (m *model) tooLargeAPart(now time.Duration) bool {
	tenth := func(d time.Duration) float64 { return math.Floor(float64(d) / float64(m.config.Window/10)) }
	all, failed := 0, 0
	for _, e := range m.ended() {
		if tenth(e.ended) > tenth(now)-10 {
			all++
			if e.outcome == breaker.Failure {
				failed++
			}
		}
	}
	return m.config.Window > 0 && failed >= m.config.RatioFailures && float64(failed)/float64(all) >= m.config.Ratio
}

// The breaker does what the model does.
func TestBreakerIsAsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := breaker.Config{
			Failures:      rapid.IntRange(0, 4).Draw(t, "failures"),
			Distinct:      rapid.Bool().Draw(t, "distinct"),
			Ratio:         rapid.SampledFrom([]float64{0.25, 0.5, 0.75, 1}).Draw(t, "ratio"),
			RatioFailures: rapid.IntRange(1, 6).Draw(t, "ratio failures"),
			Window:        rapid.SampledFrom([]time.Duration{0, time.Second, 2 * time.Second}).Draw(t, "window"),
			Pause:         time.Duration(rapid.IntRange(0, 1500).Draw(t, "pause")) * time.Millisecond,
			Probes:        rapid.IntRange(1, 3).Draw(t, "probes"),
		}
		b, m := breaker.New(config), &model{config: config}
		type pair struct {
			call  breaker.Call
			event *event
		}
		var under []pair
		// The clock may start anywhere. Half milliseconds keep away from the
		// ends of slots.
		now := time.Duration(rapid.IntRange(-5000, 5000).Draw(t, "start"))*time.Millisecond + time.Millisecond/2
		mostly := rapid.SampledFrom([]breaker.Outcome{breaker.Success, breaker.Failure}).Draw(t, "mostly")
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			now += time.Duration(rapid.SampledFrom([]int{0, 0, 1, 20, 120, 700}).Draw(t, "ms")) * time.Millisecond
			if len(under) == 0 || rapid.IntRange(0, 2).Draw(t, "do") == 0 {
				ready := b.Ready(now)
				call, ok := b.Begin(now)
				event, want := m.begin(now)
				if ok != want || ready != want {
					t.Fatalf("at %v: Begin says %v and Ready %v; want %v", now, ok, ready, want)
				}
				if ok {
					under = append(under, pair{call, event})
				}
				continue
			}
			i := rapid.IntRange(0, len(under)-1).Draw(t, "which")
			o := rapid.SampledFrom([]breaker.Outcome{mostly, breaker.Success, breaker.Failure, breaker.Neither}).Draw(t, "outcome")
			got, want := b.End(under[i].call, now, o), m.end(under[i].event, now, o)
			if got != want {
				t.Fatalf("at %v: change %d, want %d", now, got, want)
			}
			under = append(under[:i], under[i+1:]...)
		}
		// It is never stuck: when all calls have ended, enough successes close it.
		for _, u := range under {
			b.End(u.call, now, breaker.Failure)
		}
		now += config.Pause
		for range config.Probes {
			call, ok := b.Begin(now)
			if !ok {
				t.Fatal("it is stuck")
			}
			b.End(call, now, breaker.Success)
		}
	})
}
