// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/rpc/edge/httpapi"
)

// Web is the HTTP server for programs that run no decider. Its listeners are
// set before Serve.
type Web struct {
	server    *http.Server
	listeners []net.Listener
	unix      *splitter // nil without a Unix socket
	ending    *Ending
	loops     sync.WaitGroup
	retired   atomic.Bool
}

// NewWeb returns a Web that does not serve yet.
func NewWeb(ending *Ending) *Web { return &Web{ending: ending} }

// Listen has w serve what comes in at l.
func (w *Web) Listen(l net.Listener) { w.listeners = append(w.listeners, l) }

// Addr is where the first listener listens.
func (w *Web) Addr() net.Addr { return w.listeners[0].Addr() }

// Share has e serve what speaks gRPC at l, and w the rest.
func (w *Web) Share(e *Edge, l *conns.Listener) {
	w.unix = split(l)
	w.listeners = append(w.listeners, w.unix.http)
	e.more = append(e.more, w.unix)
}

// HangUp ends what Share has begun.
func (w *Web) HangUp() {
	if w.unix != nil {
		w.unix.stop()
	}
}

// Serve begins to answer with handler. meter may be nil.
func (w *Web) Serve(handler http.Handler, panics *Panics, meter *Meter, log *slog.Logger) {
	handler = w.untilRetired(untilOld(holdBodies(panics.wrap(handler))))
	if meter != nil {
		handler = meter.timed(handler)
	}
	w.server = httpapi.NewServer(handler)
	w.server.ConnContext, w.server.ConnState = withConn, conns.State
	w.server.ErrorLog = slog.NewLogLogger(log.With("server", "http").Handler(), slog.LevelWarn)
	for _, l := range w.listeners {
		w.loops.Go(func() { w.ending.End(w.server.Serve(l)) })
	}
}

// Retire has each connection end with its next answer, which says so. A program that keeps
// its connection then sends the next request to another daemon, and none while Stop closes
// what is open.
func (w *Web) Retire() { w.retired.Store(true) }

func (w *Web) untilRetired(next http.Handler) http.Handler {
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if w.retired.Load() {
			to.Header().Set("Connection", "close")
		}
		next.ServeHTTP(to, r)
	})
}

// untilOld has each connection end with its next answer when it is as old as the edge's may become: its
// certificate may have ended since, or its authority may have gone. Not all end at once.
func untilOld(next http.Handler) http.Handler {
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if until, ok := r.Context().Value(ageKey{}).(time.Time); ok && time.Now().After(until) {
			to.Header().Set("Connection", "close")
		}
		next.ServeHTTP(to, r)
	})
}

type ageKey struct{}

// withAge is the context of requests on a connection, with when it is old.
func withAge(ctx context.Context) context.Context {
	return context.WithValue(ctx, ageKey{}, time.Now().Add(maxAge-rand.N(maxAge/10)))
}

// Stop lets requests end for as long as drain, and ends the others, which is no
// error, as at the edge. It returns when none runs any more.
func (w *Web) Stop(ctx context.Context, drain time.Duration, log *slog.Logger) error {
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

// Abandon gives up what was never served.
func (w *Web) Abandon() {
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
