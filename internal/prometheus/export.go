// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/uber-go/tally/v4"
)

const (
	// every is how often what was counted goes to Prometheus' registry.
	every = time.Second
	// maxReads is how many may read at once.
	maxReads = 4
	// longest is how long a read may take.
	longest = 10 * time.Second
)

// Export is a tally.Scope whose metrics an http.Handler shows. Use New. Safe
// for concurrent use.
type Export struct {
	http.Handler

	registry *prom.Registry
	scope    tally.Scope
	closer   io.Closer
}

// New returns an Export with a registry of its own, which also says how the
// process does. refused is called with metrics that Prometheus does not take, such as
// one with other tags than before; it may be called by many goroutines.
func New(refused func(error)) (*Export, error) {
	registry := prom.NewRegistry()
	err := errors.Join(
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	scope, closer := tally.NewRootScope(tally.ScopeOptions{
		Separator:              "_",
		CachedReporter:         newReporter(registry, refused),
		OmitCardinalityMetrics: true,
	}, every)
	// A read that takes too long is not ended by its timeout. If the next one did the same work beside it,
	// that would be slower still.
	handler := promhttp.HandlerFor(&shared{from: registry}, promhttp.HandlerOpts{MaxRequestsInFlight: maxReads, Timeout: longest})
	return &Export{Handler: handler, registry: registry, scope: scope, closer: closer}, nil
}

// Scope is where metrics go.
func (e *Export) Scope() tally.Scope { return e.scope }

// Gauge also exports headgate_name, which is what read returns at each read of the
// metrics. read may be called by many goroutines.
func (e *Export) Gauge(name string, read func() float64) error {
	return e.register(prom.NewGaugeFunc(prom.GaugeOpts{Name: prefix + name, Help: help(prefix + name)}, read))
}

// InfoGauge is like Gauge, for a value that is always 1: its labels have the information.
func (e *Export) InfoGauge(name string, labels map[string]string) error {
	return e.register(prom.NewGaugeFunc(prom.GaugeOpts{Name: prefix + name, Help: help(prefix + name), ConstLabels: labels},
		func() float64 { return 1 }))
}

// prefix begins the names of what is not in a scope.
const prefix = "headgate_"

func (e *Export) register(c prom.Collector) error {
	if err := e.registry.Register(c); err != nil {
		return fmt.Errorf("prometheus: %w", err)
	}
	return nil
}

// Close ends the goroutine that keeps what is shown current.
func (e *Export) Close() error { return e.closer.Close() }
