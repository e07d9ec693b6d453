// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"context"
	_ "embed" // the description
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/scopes"
	"github.com/headgate/headgate/rpc/edge"
)

// Defaults of Options.
const (
	DefaultMaxBody  = 1 << 20
	DefaultMaxBatch = 1000

	// LargeBody is the size of the largest body that does not count as large, in bytes.
	LargeBody = 4 << 10

	DefaultMaxReservations = 1 << 16
	DefaultSettleWithin    = 10 * time.Minute
)

// OpenAPI is the description of the API, in JSON, of OpenAPI 3.1.
//
//go:embed openapi.json
var OpenAPI []byte

// Engine is what an API asks: package limiter/engine has it. Implementations are safe
// for concurrent use.
type Engine interface {
	edge.Engine

	// DecideAll decides about asks, and returns a Decision for each, in their order.
	DecideAll(ctx context.Context, asks []edge.Ask) []edge.Decision

	// Look describes key's bucket, and changes nothing. It returns false if
	// nothing limits the key, or nothing of it is allowed because no rule matches it.
	Look(key string) (edge.Bucket, bool)
}

// Options is the setup of an API. The zero Options is good.
type Options struct {
	// MaxBody bounds a request's body, in bytes; default DefaultMaxBody.
	// Larger ones are answered with 413.
	MaxBody int64

	// MaxBatch bounds the keys of one request; default DefaultMaxBatch.
	MaxBatch int

	// MaxReservations is how many reservations are remembered until they are
	// settled, half of it at the least; default DefaultMaxReservations. One
	// takes about 400 bytes. What is forgotten stays taken.
	MaxReservations int

	// SettleWithin is for how long a reservation is remembered at the least, if
	// there are not too many; default DefaultSettleWithin.
	SettleWithin time.Duration

	// Ready, when not nil, says whether it is time to send requests here.
	Ready func() bool

	// May, when not nil, returns why the program that sent a request may not do
	// something with a key. It has the context of the request. Take is asked for looks
	// too. Settlements are not asked for: who has a reservation may settle it.
	May func(ctx context.Context, kind edge.Kind, key string) error

	// Large, when not nil, runs decode, which reads a body of more than LargeBody bytes,
	// and returns when that has ended. It may wait before, so that many large bodies
	// delay no small ones; when ctx ends meanwhile, it returns false. It is called by many
	// goroutines at once.
	Large func(ctx context.Context, decode func()) bool

	// Random returns numbers in [0, 1) that spread Retry-After; default
	// rand.Float64. It is called by many goroutines at once.
	Random func() float64

	// Scope is where metrics go: `httpapi.requests`, by status,
	// `httpapi.decisions`, by reason, and `httpapi.settlements`, by whether
	// the reservation was known; default nowhere.
	Scope tally.Scope
}

// API is the http.Handler of all paths. Use New.
type API struct {
	reader    reader
	decider   decider
	responder *responder
	reserved  reservations
	ready     func() bool
	mux       *http.ServeMux
}

var _ http.Handler = (*API)(nil)

// New returns an API that asks engine.
func New(engine Engine, o Options) *API {
	o.MaxBody, o.MaxBatch = cmp.Or(max(o.MaxBody, 0), DefaultMaxBody), cmp.Or(max(o.MaxBatch, 0), DefaultMaxBatch)
	o.MaxReservations = cmp.Or(max(o.MaxReservations, 0), DefaultMaxReservations)
	o.SettleWithin = cmp.Or(max(o.SettleWithin, 0), DefaultSettleWithin)
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	if o.May == nil {
		o.May = func(context.Context, edge.Kind, string) error { return nil }
	}
	if o.Large == nil {
		o.Large = func(_ context.Context, decode func()) bool { decode(); return true }
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	counted := newMetrics(scopes.Guard(o.Scope, slog.Default()))
	a := &API{
		decider:   decider{engine, o.May, counted},
		responder: &responder{counted, o.Random},
		reserved:  reservations{most: max(o.MaxReservations/2, 1), within: o.SettleWithin},
		ready:     o.Ready,
	}
	a.reader = reader{o.MaxBody, o.MaxBatch, o.Large, a.responder}
	a.mux = a.routes()
	return a
}

// NewServer returns an http.Server of handler with bounds on what slow and
// hostile clients can hold: 5s for a request's header, of at most 16 kB, 10s
// for all of it, 10s more for the answer, and 2m between requests. A connection of HTTP/2
// has at most 100 requests at once, and 128 kB of bodies that are not read yet.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second, // counts from the end of the header
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    12 << 10, // net/http takes 4 KiB more
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          100,
			MaxReceiveBufferPerConnection: 128 << 10,
			MaxReceiveBufferPerStream:     64 << 10,
		},
	}
}

// posts are what answers at the paths that have POST.
func posts(a *API) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/v1/allow":   a.allow,
		"/v1/charge":  a.charge,
		"/v1/reserve": a.reserve,
		"/v1/settle":  a.settle,
	}
}

// gets are what answers at the paths that have GET and HEAD.
func gets(a *API) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/v1/openapi.json":    a.responder.openAPI,
		"/v1/problems/{name}": a.responder.problem,
		"/healthz":            a.responder.live,
		"/livez":              a.responder.live,
		"/readyz":             a.readiness,
	}
}

// Decides reports whether r asks about keys, and not about the daemon or this API.
func Decides(r *http.Request) bool {
	_, ok := posts(nil)[r.URL.Path]
	return ok || strings.HasPrefix(r.URL.Path, keysPath)
}

// routes puts all paths but that of keys into a ServeMux.
func (a *API) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for path, respond := range posts(a) {
		mux.HandleFunc("POST "+path, respond)
		mux.HandleFunc(path, a.responder.notAllowed("POST"))
	}
	for path, respond := range gets(a) {
		mux.HandleFunc("GET "+path, respond)
		mux.HandleFunc(path, a.responder.notAllowed("GET, HEAD"))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { a.responder.refuse(w, notFound, "%s", notFound.advice) })
	return mux
}

// ServeHTTP implements http.Handler. A ServeMux would clean keys of slashes and dots.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !strings.HasPrefix(r.URL.Path, keysPath):
		a.mux.ServeHTTP(w, r)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		a.key(w, r)
	default:
		a.responder.notAllowed("GET, HEAD")(w, r)
	}
}

func (a *API) readiness(w http.ResponseWriter, _ *http.Request) {
	if !a.ready() {
		a.responder.text(w, http.StatusServiceUnavailable, "not ready\n")
		return
	}
	a.responder.text(w, http.StatusOK, "ok\n")
}
