// SPDX-License-Identifier: Apache-2.0

// Package metrics has a service show the metrics of its Node to Prometheus, by the names
// that docs/metrics.md has.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/uber-go/tally/v4"
	tallyprom "github.com/uber-go/tally/v4/prometheus"

	"github.com/headgate/headgate"
)

// measured returns the option for headgate.New, and what serves GET /metrics.
func measured(registry *prometheus.Registry) (option headgate.Option, metrics http.Handler, stop func() error) {
	scope, closer := tally.NewRootScope(tally.ScopeOptions{
		Separator:              tallyprom.DefaultSeparator,
		CachedReporter:         totals{tallyprom.NewReporter(tallyprom.Options{Registerer: registry})},
		OmitCardinalityMetrics: true,
	}, time.Second)
	return headgate.WithScope(scope), promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), closer.Close
}

// totals has the names of counters end in _total, which tally's own reporter does not.
type totals struct{ tallyprom.Reporter }

func (t totals) AllocateCounter(name string, tags map[string]string) tally.CachedCount {
	return t.Reporter.AllocateCounter(name+"_total", tags)
}
