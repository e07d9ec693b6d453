// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/conns"
)

const (
	// maxConnections bounds the connections to a Server.
	maxConnections = 256
	// maxStreams bounds the requests at once of one connection of HTTP/2.
	maxStreams = 16
)

// longestProfile is how long an answer may take. A profile takes as long as its
// reader asks for, up to this.
const longestProfile = 2 * time.Minute

// Server answers the operators of a daemon. Use New.
type Server struct {
	server   *http.Server
	mux      *http.ServeMux
	listener net.Listener
	log      *slog.Logger
	loop     sync.WaitGroup
}

// New returns a Server that will answer at l, with what metrics shows and health
// says. Both are used by many goroutines. secure, unless it is nil, encrypts.
func New(l net.Listener, secure *tls.Config, metrics http.Handler, health func() Health, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { health().write(w) })
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("GET /debug/pprof/"+path, here(profile))
	}
	tracked := conns.Track(l, maxConnections)
	accepts := net.Listener(tracked)
	if secure != nil {
		accepts = tls.NewListener(tracked, secure)
	}
	return &Server{
		mux: mux,
		server: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      longestProfile,
			IdleTimeout:       longestProfile,
			MaxHeaderBytes:    12 << 10, // net/http takes 4 KiB more
			HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
			ConnState:         conns.Turns,
			ErrorLog:          slog.NewLogLogger(log.With("server", "admin").Handler(), slog.LevelWarn),
		},
		listener: accepts,
		log:      log,
	}
}

// Handle has s answer more. Call it before Serve.
func (s *Server) Handle(pattern string, handler http.Handler) { s.mux.Handle(pattern, handler) }

// Address is where s listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve begins to answer. What ends it ends nothing else.
func (s *Server) Serve() {
	s.loop.Go(func() {
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the admin address does not answer any more", "error", err)
		}
	})
}

// Close ends s, served or not, with all its connections.
func (s *Server) Close() error {
	err := s.server.Close()
	s.loop.Wait()
	if closing := s.listener.Close(); !errors.Is(closing, net.ErrClosed) {
		err = errors.Join(err, closing)
	}
	return err
}

func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}

// here refuses callers that are on other machines.
func here(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if at, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !at.Addr().Unmap().IsLoopback() {
			http.Error(w, fmt.Sprintf("profiles are for callers on this machine, and you are %s: call from the machine itself", r.RemoteAddr), http.StatusForbidden)
			return
		}
		next(w, r)
	}
}
