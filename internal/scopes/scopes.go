// SPDX-License-Identifier: Apache-2.0

// Package scopes keeps panics of metrics from those who count.
//
//	scope = scopes.Guard(scope, log)
//	scope.Counter("allowed").Inc(1) // does nothing if the code behind scope panics
//
// A service brings its own tally.Scope: a reporter of it may panic, as some do when a name is used
// twice. A decision, or the loop that reports usage, must not end because of that. The package
// knows no metrics. Its only state is the time of the last log line.
package scopes

import (
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/uber-go/tally/v4"
)

// logEvery is how often a panic is logged.
const logEvery = time.Minute

// Guard returns scope, without its panics. They are logged once in a minute. A nil scope is nowhere.
func Guard(scope tally.Scope, log *slog.Logger) tally.Scope {
	if scope == nil {
		return tally.NoopScope
	}
	if _, is := scope.(*guarded); is || scope == tally.NoopScope {
		return scope
	}
	return &guarded{scope, &panics{log: log}}
}

// panics are those of one scope.
type panics struct {
	log    *slog.Logger
	logged atomic.Int64 // Unix nanoseconds
}

// recovered keeps a panic from the caller that defers it.
func (p *panics) recovered() {
	value := recover()
	if value == nil {
		return
	}
	now, last := time.Now().UnixNano(), p.logged.Load()
	if time.Duration(now-last).Abs() >= logEvery && p.logged.CompareAndSwap(last, now) {
		p.log.Error("the code of a metrics scope panicked; some metrics are missing", "panic", value, "stack", string(debug.Stack()))
	}
}

type guarded struct {
	of tally.Scope
	*panics
}

// Counter implements tally.Scope.
func (g *guarded) Counter(name string) (c tally.Counter) {
	c = tally.NoopScope.Counter(name)
	defer g.recovered()
	return &counter{g.of.Counter(name), g.panics}
}

// Gauge implements tally.Scope.
func (g *guarded) Gauge(name string) (m tally.Gauge) {
	m = tally.NoopScope.Gauge(name)
	defer g.recovered()
	return &gauge{g.of.Gauge(name), g.panics}
}

// Timer implements tally.Scope. What happens later is not guarded: headgate has no timers.
func (g *guarded) Timer(name string) (t tally.Timer) {
	t = tally.NoopScope.Timer(name)
	defer g.recovered()
	return g.of.Timer(name)
}

// Histogram implements tally.Scope.
func (g *guarded) Histogram(name string, buckets tally.Buckets) (h tally.Histogram) {
	h = tally.NoopScope.Histogram(name, buckets)
	defer g.recovered()
	return &histogram{g.of.Histogram(name, buckets), g.panics}
}

// Tagged implements tally.Scope.
func (g *guarded) Tagged(tags map[string]string) (s tally.Scope) {
	s = tally.NoopScope
	defer g.recovered()
	return &guarded{g.of.Tagged(tags), g.panics}
}

// SubScope implements tally.Scope.
func (g *guarded) SubScope(name string) (s tally.Scope) {
	s = tally.NoopScope
	defer g.recovered()
	return &guarded{g.of.SubScope(name), g.panics}
}

// Capabilities implements tally.Scope.
func (g *guarded) Capabilities() (c tally.Capabilities) {
	c = tally.NoopScope.Capabilities()
	defer g.recovered()
	return g.of.Capabilities()
}

type counter struct {
	of tally.Counter
	*panics
}

// Inc implements tally.Counter.
func (c *counter) Inc(delta int64) {
	defer c.recovered()
	c.of.Inc(delta)
}

type gauge struct {
	of tally.Gauge
	*panics
}

// Update implements tally.Gauge.
func (g *gauge) Update(value float64) {
	defer g.recovered()
	g.of.Update(value)
}

type histogram struct {
	of tally.Histogram
	*panics
}

// RecordValue implements tally.Histogram.
func (h *histogram) RecordValue(value float64) {
	defer h.recovered()
	h.of.RecordValue(value)
}

// RecordDuration implements tally.Histogram.
func (h *histogram) RecordDuration(value time.Duration) {
	defer h.recovered()
	h.of.RecordDuration(value)
}

// Start implements tally.Histogram.
func (h *histogram) Start() tally.Stopwatch { return tally.NewStopwatch(time.Now(), h) }

// RecordStopwatch implements tally.StopwatchRecorder.
func (h *histogram) RecordStopwatch(start time.Time) { h.RecordDuration(time.Since(start)) }
