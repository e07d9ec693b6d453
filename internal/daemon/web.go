// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge/httpapi"
)

// web is the HTTP server for programs that run no decider. Its listeners are
// set before serve.
type web struct {
	server    *http.Server
	listeners []net.Listener
	unix      *splitter // nil without a Unix socket
	ending    *ending
	loops     sync.WaitGroup
}

func newWeb(ending *ending) *web { return &web{ending: ending} }

// listen has w serve what comes in at l.
func (w *web) listen(l net.Listener) { w.listeners = append(w.listeners, l) }

// share has e serve what speaks gRPC at l, and w the rest.
func (w *web) share(e *edge, l *conns.Listener) {
	w.unix = split(l)
	w.listeners = append(w.listeners, w.unix.http)
	e.more = append(e.more, w.unix.grpc)
}

// hangUp ends what share has begun.
func (w *web) hangUp() {
	if w.unix != nil {
		w.unix.stop()
	}
}

// serve begins to answer with the limiters of d's node.
func (w *web) serve(d *Daemon) {
	o := httpapi.Options{Ready: d.phase.ready, Scope: d.metrics.scope()}
	if d.access.policy != nil {
		o.May = d.access.mayOverHTTP
	}
	var handler http.Handler = httpapi.New(engine.New(d.node.Group(), d.node.Limits().Current), o)
	if d.access.policy != nil {
		handler = d.access.wrap(handler)
	}
	handler = new(bodies).wrap(newPanics("http", d.log, d.metrics.scope()).wrap(handler))
	if d.metrics != nil {
		handler = d.metrics.meter.timed(handler)
	}
	w.server = httpapi.NewServer(handler)
	w.server.ConnContext = withUID
	w.server.ErrorLog = slog.NewLogLogger(d.log.With("server", "http").Handler(), slog.LevelWarn)
	for _, l := range w.listeners {
		w.loops.Go(func() { w.ending.end(w.server.Serve(l)) })
	}
}

// stop lets requests end for as long as drain, and ends the others, which is no
// error, as at the edge. It returns when none runs any more.
func (w *web) stop(ctx context.Context, drain time.Duration, log *slog.Logger) error {
	draining, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	err := w.server.Shutdown(draining)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		log.Warn("HTTP requests did not end in time, and are ended", "drain", drain)
		err = nil
	case err != nil:
		err = fmt.Errorf("HTTP requests were ended: %w", err)
	}
	err = errors.Join(err, ignore(w.server.Close(), net.ErrClosed))
	w.loops.Wait()
	return err
}

// abandon gives up what was never served.
func (w *web) abandon() {
	for _, l := range w.listeners {
		_ = l.Close()
	}
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
