// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/internal/prometheus"
	"github.com/headgate/headgate/rpc/edge/httpapi"
)

// maxScrapers bounds the connections of those who read the metrics.
const maxScrapers = 16

// prefix begins the names of all metrics.
const prefix = "headgate"

// metrics is the HTTP server from which Prometheus reads GET /metrics. Without
// a place to serve, it is nil and there are none.
type metrics struct {
	export   *prometheus.Export
	listener *conns.Listener
	server   *http.Server
	loop     sync.WaitGroup
	meter    *meter
}

// newMetrics listens for Prometheus at address; nil if that is empty.
func newMetrics(ctx context.Context, address string, log *slog.Logger) (*metrics, error) {
	if address == "" {
		return nil, nil
	}
	l, err := listen(ctx, "Prometheus", address)
	if err != nil {
		return nil, err
	}
	export, err := prometheus.New(func(err error) { log.Error("a metric cannot be read", "error", err) })
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", newPanics("metrics", log, export.Scope().SubScope(prefix)).wrap(export))
	server := httpapi.NewServer(mux)
	logMishaps(server, log, "metrics")
	return &metrics{
		export: export, listener: conns.Track(l, maxScrapers), server: server,
		meter: &meter{scope: export.Scope().SubScope(prefix)},
	}, nil
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

// serve begins to answer. What ends it ends nothing else.
func (m *metrics) serve(log *slog.Logger) {
	if m == nil {
		return
	}
	m.loop.Go(func() {
		if err := m.server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics cannot be read any more", "error", err)
		}
	})
}

// stop ends m, served or not.
func (m *metrics) stop() error {
	if m == nil {
		return nil
	}
	err := m.server.Close()
	m.loop.Wait()
	return errors.Join(err, ignore(m.listener.Close(), net.ErrClosed), m.export.Close())
}
