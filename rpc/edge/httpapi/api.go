// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/rpc/edge"
)

// Defaults of Options.
const (
	DefaultMaxBody  = 1 << 20
	DefaultMaxBatch = 1000

	DefaultMaxReservations = 1 << 16
	DefaultSettleWithin    = 10 * time.Minute
)

// Engine is what an API asks: package limiter/engine has it. Implementations are safe
// for concurrent use.
type Engine interface {
	edge.Engine

	// DecideAll decides about asks, and returns a Decision for each, in their order.
	DecideAll(ctx context.Context, asks []edge.Ask) []edge.Decision

	// Look tells about key's bucket, and changes nothing. It returns false if
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
	engine   Engine
	maxBody  int64
	maxBatch int
	ready    func() bool
	may      func(ctx context.Context, kind edge.Kind, key string) error
	random   func() float64
	metrics  metrics
	reserved reservations
	mux      *http.ServeMux
}

var _ http.Handler = (*API)(nil)

// New returns an API that asks engine.
func New(engine Engine, o Options) *API {
	a := &API{engine: engine, maxBody: o.MaxBody, maxBatch: o.MaxBatch, ready: o.Ready, may: o.May, random: o.Random}
	if a.maxBody <= 0 {
		a.maxBody = DefaultMaxBody
	}
	if a.maxBatch <= 0 {
		a.maxBatch = DefaultMaxBatch
	}
	if a.ready == nil {
		a.ready = func() bool { return true }
	}
	if a.may == nil {
		a.may = func(context.Context, edge.Kind, string) error { return nil }
	}
	if a.random == nil {
		a.random = rand.Float64
	}
	if o.MaxReservations <= 0 {
		o.MaxReservations = DefaultMaxReservations
	}
	if o.SettleWithin <= 0 {
		o.SettleWithin = DefaultSettleWithin
	}
	a.reserved.most, a.reserved.within = max(o.MaxReservations/2, 1), o.SettleWithin
	if o.Scope == nil {
		o.Scope = tally.NoopScope
	}
	a.metrics = newMetrics(o.Scope)
	a.mux = a.routes()
	return a
}

// NewServer returns an http.Server of handler with bounds on what slow and
// hostile clients can hold: 5s for a request's header, of at most 16 kB, 10s
// for all of it, 10s more for the answer, and 2m between requests. A connection of HTTP/2
// has at most 100 requests at once, and 128 kB of bodies that nobody has read.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second, // counts from the end of the header
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
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
		"/v1/openapi.json":    a.openAPI,
		"/v1/problems/{name}": a.problem,
		"/healthz":            a.live,
		"/livez":              a.live,
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
		mux.HandleFunc(path, a.notAllowed("POST"))
	}
	for path, respond := range gets(a) {
		mux.HandleFunc("GET "+path, respond)
		mux.HandleFunc(path, a.notAllowed("GET, HEAD"))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { a.refuse(w, notFound, "") })
	return mux
}

// notAllowed answers that a path has other methods.
func (a *API) notAllowed(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", methods)
		a.refuse(w, notAllowed, "")
	}
}

// ServeHTTP implements http.Handler. A ServeMux would clean keys of slashes and dots.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !strings.HasPrefix(r.URL.Path, keysPath):
		a.mux.ServeHTTP(w, r)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		a.key(w, r)
	default:
		a.notAllowed("GET, HEAD")(w, r)
	}
}

func (a *API) live(w http.ResponseWriter, _ *http.Request) { a.text(w, http.StatusOK, "ok\n") }

func (a *API) readiness(w http.ResponseWriter, _ *http.Request) {
	if !a.ready() {
		a.text(w, http.StatusServiceUnavailable, "not ready\n")
		return
	}
	a.text(w, http.StatusOK, "ok\n")
}

func (a *API) text(w http.ResponseWriter, status int, text string) {
	a.send(w, status, "text/plain; charset=utf-8", []byte(text))
}

// send writes a whole answer. Who left early does not hear it.
func (a *API) send(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	if contentType == "application/json" {
		h["Content-Type"] = asJSON
	} else {
		h["Content-Type"] = []string{contentType}
	}
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	a.metrics.answered(status)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Fields that are the same each time. Nobody changes what they hold.
var noStore, noSniff, asJSON = []string{"no-store"}, []string{"nosniff"}, []string{"application/json"}
