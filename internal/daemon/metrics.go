// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin"
	"github.com/headgate/headgate/internal/buildinfo"
	"github.com/headgate/headgate/internal/daemon/certs"
	"github.com/headgate/headgate/internal/prometheus"
)

// prefix begins the names of all metrics.
const prefix = "headgate"

// metrics is what a daemon measures, and the server where operators read it. Without
// a place to serve, it is nil and nothing is measured.
type metrics struct {
	export *prometheus.Export
	server *admin.Server
	meter  *meter
}

// newMetrics listens for operators at address; nil if that is empty. own, unless it is
// nil, encrypts. health is what they hear of d.
func newMetrics(ctx context.Context, address string, own *certs.Certificates, health func() admin.Health, log *slog.Logger) (*metrics, error) {
	if address == "" {
		return nil, nil
	}
	export, err := prometheus.New(func(err error) { log.Error("a metric cannot be read", "error", err) })
	if err != nil {
		return nil, err
	}
	l, err := listen(ctx, "operators", address)
	if err != nil {
		return nil, errors.Join(err, export.Close())
	}
	var secure *tls.Config
	if own != nil {
		secure = own.Server("h2", "http/1.1")
	}
	return &metrics{
		export: export, server: admin.New(l, secure, export, health, log),
		meter: &meter{scope: export.Scope().SubScope(prefix)},
	}, nil
}

// tell exports what was built, how limits has changed so far, and what part of all keys
// has an owner that does not answer.
func (m *metrics) tell(limits *dynamicconfig.Live, unreachable func() float64) error {
	if m == nil {
		return nil
	}
	built := buildinfo.Read()
	return errors.Join(
		m.export.InfoGauge("build_info", map[string]string{"version": built.Version, "revision": built.Revision, "goversion": built.Go}),
		m.export.Gauge("owners_unreachable", unreachable),
		m.export.Counter("config_applied", limits.Applied),
		m.export.Counter("config_refused", limits.Rejected),
		m.export.Gauge("config_applied_timestamp_seconds", func() float64 { return seconds(limits.Since()) }),
		m.export.Gauge("config_refused_timestamp_seconds", func() float64 { return seconds(limits.RejectedAt()) }),
		m.export.Gauge("config_newest_in_force", func() float64 {
			if limits.LastError() != nil {
				return 0
			}
			return 1
		}),
	)
}

// seconds is t as Prometheus has times; 0 if t is zero.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}

// root is the scope whose metrics Prometheus reads; none if m is nil. A Node adds
// the prefix itself.
func (m *metrics) root() tally.Scope {
	if m == nil {
		return tally.NoopScope
	}
	return m.export.Scope()
}

// scope is root with the prefix.
func (m *metrics) scope() tally.Scope { return m.root().SubScope(prefix) }

// handle serves more than metrics. Call it before serve.
func (m *metrics) handle(pattern string, handler http.Handler) {
	if m != nil {
		m.server.Handle(pattern, handler)
	}
}

// serve begins to answer.
func (m *metrics) serve() {
	if m != nil {
		m.server.Serve()
	}
}

// stop ends m, served or not.
func (m *metrics) stop() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.server.Close(), m.export.Close())
}
