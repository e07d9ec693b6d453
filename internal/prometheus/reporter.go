// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/uber-go/tally/v4"
)

// reporter puts the values of a tally.Scope into a registry of Prometheus. It
// implements tally.CachedStatsReporter, and is safe for concurrent use.
//
// A name stands for one kind of metric with one set of labels. A metric that breaks
// this goes to refused, and its values go nowhere.
type reporter struct {
	registry *prom.Registry
	refused  func(error)

	mu       sync.Mutex // protects following fields
	families map[string]family
}

// family is all metrics of one name.
type family struct {
	kind   string
	labels []string
	vector prom.Collector
}

func newReporter(registry *prom.Registry, refused func(error)) *reporter {
	return &reporter{registry: registry, refused: refused, families: make(map[string]family)}
}

// vector returns the metrics of that name, which make makes when there are none yet.
func (r *reporter) vector(name, kind string, tags map[string]string, make func(labels []string) prom.Collector) (prom.Collector, bool) {
	labels := slices.Sorted(maps.Keys(tags))
	r.mu.Lock()
	defer r.mu.Unlock()

	f, ok := r.families[name]
	if !ok {
		f = family{kind, labels, make(labels)}
		if err := r.registry.Register(f.vector); err != nil {
			r.refused(fmt.Errorf("prometheus: the %s %s cannot be exported: %w", kind, name, err))
			return nil, false
		}
		r.families[name] = f
	}
	if f.kind != kind || !slices.Equal(f.labels, labels) {
		r.refused(fmt.Errorf("prometheus: %s is a %s with the labels [%s], and cannot also be a %s with [%s]: choose another name",
			name, f.kind, strings.Join(f.labels, " "), kind, strings.Join(labels, " ")))
		return nil, false
	}
	return f.vector, true
}

// Capabilities implements tally.BaseStatsReporter.
func (r *reporter) Capabilities() tally.Capabilities { return capabilities{} }

// Flush implements tally.BaseStatsReporter. There is nothing to send.
func (r *reporter) Flush() {}

// capabilities says that values and labels are both exported.
type capabilities struct{}

func (capabilities) Reporting() bool { return true }
func (capabilities) Tagging() bool   { return true }

// AllocateCounter implements tally.CachedStatsReporter. The name ends in _total, as
// those of all counters do in Prometheus.
func (r *reporter) AllocateCounter(name string, tags map[string]string) tally.CachedCount {
	v, ok := r.vector(name+"_total", "counter", tags, func(labels []string) prom.Collector {
		return prom.NewCounterVec(prom.CounterOpts{Name: name + "_total", Help: help(name)}, labels)
	})
	if counters, is := v.(*prom.CounterVec); ok && is {
		of, err := counters.GetMetricWith(tags)
		if err == nil {
			return counter{of}
		}
		r.refused(fmt.Errorf("prometheus: a counter cannot be exported: %w", err))
	}
	return nowhere{}
}

// AllocateGauge implements tally.CachedStatsReporter.
func (r *reporter) AllocateGauge(name string, tags map[string]string) tally.CachedGauge {
	v, ok := r.vector(name, "gauge", tags, func(labels []string) prom.Collector {
		return prom.NewGaugeVec(prom.GaugeOpts{Name: name, Help: help(name)}, labels)
	})
	if gauges, is := v.(*prom.GaugeVec); ok && is {
		of, err := gauges.GetMetricWith(tags)
		if err == nil {
			return gauge{of}
		}
		r.refused(fmt.Errorf("prometheus: a gauge cannot be exported: %w", err))
	}
	return nowhere{}
}

// AllocateTimer implements tally.CachedStatsReporter. headgate's packages have
// histograms in place of timers.
func (r *reporter) AllocateTimer(name string, _ map[string]string) tally.CachedTimer {
	r.refused(fmt.Errorf("prometheus: the timer %s cannot be exported: use a histogram", name))
	return nowhere{}
}

// AllocateHistogram implements tally.CachedStatsReporter. Durations are in seconds.
func (r *reporter) AllocateHistogram(name string, tags map[string]string, buckets tally.Buckets) tally.CachedHistogram {
	v, ok := r.vector(name, "histogram", tags, func(labels []string) prom.Collector { return newHistograms(name, labels, buckets) })
	if h, is := v.(*histograms); ok && is {
		return h.with(tags)
	}
	return nowhere{}
}

// help is the text of a metric's # HELP line.
func help(name string) string { return name + ": see docs/metrics.md." }

// counter is a counter of Prometheus.
type counter struct{ of prom.Counter }

// ReportCount implements tally.CachedCount.
func (c counter) ReportCount(n int64) { c.of.Add(float64(max(n, 0))) }

// gauge is a gauge of Prometheus.
type gauge struct{ of prom.Gauge }

// ReportGauge implements tally.CachedGauge.
func (g gauge) ReportGauge(value float64) { g.of.Set(value) }

// nowhere drops the values of a metric that is not exported.
type nowhere struct{}

func (nowhere) ReportCount(int64)         {}
func (nowhere) ReportGauge(float64)       {}
func (nowhere) ReportTimer(time.Duration) {}
func (nowhere) ReportSamples(int64)       {}

func (nowhere) ValueBucket(_, _ float64) tally.CachedHistogramBucket          { return nowhere{} }
func (nowhere) DurationBucket(_, _ time.Duration) tally.CachedHistogramBucket { return nowhere{} }
