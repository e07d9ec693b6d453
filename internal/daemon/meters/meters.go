// SPDX-License-Identifier: Apache-2.0

// Package meters is what a daemon measures, and the server where operators and Prometheus read it.
// It does not know what is counted.
package meters

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/admin"
	"github.com/headgate/headgate/internal/buildinfo"
	"github.com/headgate/headgate/internal/daemon/certs"
	"github.com/headgate/headgate/internal/daemon/doors"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/internal/prometheus"
)

// prefix begins the names of all metrics.
const prefix = "headgate"

// Metrics is what a daemon measures, and the server where operators read it. A nil Metrics
// measures and serves nothing. Use New.
type Metrics struct {
	export *prometheus.Export
	server *admin.Server
	meter  *doors.Meter
}

// New returns what operators are served on l. own, unless it is nil, encrypts. health is what
// they hear of the daemon.
func New(l net.Listener, own *certs.Certificates, health func() admin.Health, log *slog.Logger) (*Metrics, error) {
	export, err := prometheus.New(func(err error) { log.Error("a metric cannot be read", "error", err) })
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if own != nil {
		secure = own.Server("h2", "http/1.1")
	}
	return &Metrics{
		export: export, server: admin.New(l, secure, export, health, log),
		meter: doors.NewMeter(export.Scope().SubScope(prefix)),
	}, nil
}

// Tell exports what was built, and what part of all keys has an owner that does not answer.
func (m *Metrics) Tell(unreachable func() float64) error {
	if m == nil {
		return nil
	}
	built := buildinfo.Read()
	return errors.Join(
		m.export.InfoGauge("build_info", map[string]string{"version": built.Version, "revision": built.Revision, "goversion": built.Go}),
		m.export.Gauge("owners_unreachable", unreachable),
	)
}

// TellKeys exports what desk knows of the rules, and of the keys that matter most.
func (m *Metrics) TellKeys(desk *operators.Desk) error {
	if m == nil {
		return nil
	}
	keys := prometheus.NewTable("rule", "key")
	keys.Counter("key_allowed")
	keys.Counter("key_rejected")
	keys.Gauge("key_limit")
	keys.Gauge("key_utilization")
	keys.Gauge("key_weight")
	rules := prometheus.NewTable("rule")
	rules.Gauge("rule_limit")
	rules.Gauge("rule_utilization")
	return errors.Join(
		m.export.Rows(keys, func() (rows []prometheus.Row) {
			for _, k := range desk.TopKeys() {
				rows = append(rows, prometheus.Row{
					Labels: []string{k.Rule, k.Key},
					Values: []float64{k.Allowed, k.Rejected, k.Limit, k.Used, k.Weight},
				})
			}
			return rows
		}),
		m.export.Rows(rules, func() (rows []prometheus.Row) {
			for _, u := range desk.RuleUse() {
				rows = append(rows, prometheus.Row{Labels: []string{u.Rule}, Values: []float64{u.Limit, u.Used}})
			}
			return rows
		}),
	)
}

// Root is the scope whose metrics Prometheus reads; none if m is nil. A Node adds
// the prefix itself.
func (m *Metrics) Root() tally.Scope {
	if m == nil {
		return tally.NoopScope
	}
	return m.export.Scope()
}

// Scope is Root with the prefix.
func (m *Metrics) Scope() tally.Scope { return m.Root().SubScope(prefix) }

// Address is where operators find m; empty if nowhere.
func (m *Metrics) Address() string {
	if m == nil {
		return ""
	}
	return m.server.Address()
}

// Meter counts calls; nil if m is nil.
func (m *Metrics) Meter() *doors.Meter {
	if m == nil {
		return nil
	}
	return m.meter
}

// Handle serves more than metrics. Call it before Serve.
func (m *Metrics) Handle(pattern string, handler http.Handler) {
	if m != nil {
		m.server.Handle(pattern, handler)
	}
}

// Serve begins to answer.
func (m *Metrics) Serve() {
	if m != nil {
		m.server.Serve()
	}
}

// Stop ends m, served or not.
func (m *Metrics) Stop() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.server.Close(), m.export.Close())
}
