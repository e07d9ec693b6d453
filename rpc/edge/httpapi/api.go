// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"math/rand/v2"
	"net/http"
	"net/url"
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

// Buckets is what an API asks: package limiter/buckets has it.
// Implementations are safe for concurrent use.
type Buckets interface {
	edge.Holder
	edge.Settler
	edge.Looker
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
	buckets  Buckets
	maxBody  int64
	maxBatch int
	ready    func() bool
	random   func() float64
	metrics  metrics
	reserved reservations
}

var _ http.Handler = (*API)(nil)

// New returns an API that asks buckets.
func New(buckets Buckets, o Options) *API {
	a := &API{buckets: buckets, maxBody: o.MaxBody, maxBatch: o.MaxBatch, ready: o.Ready, random: o.Random}
	if a.maxBody <= 0 {
		a.maxBody = DefaultMaxBody
	}
	if a.maxBatch <= 0 {
		a.maxBatch = DefaultMaxBatch
	}
	if a.ready == nil {
		a.ready = func() bool { return true }
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

// route is one path. One that ends in a slash is the beginning of a path.
type route struct {
	path    string
	post    bool // else GET and HEAD
	respond func(a *API, w http.ResponseWriter, r *http.Request)
}

func (to *route) matches(path string) bool {
	if to.path[len(to.path)-1] == '/' {
		return strings.HasPrefix(path, to.path)
	}
	return path == to.path
}

var routes = []route{
	{path: "/v1/allow", post: true, respond: (*API).allow},
	{path: "/v1/charge", post: true, respond: (*API).charge},
	{path: "/v1/reserve", post: true, respond: (*API).reserve},
	{path: "/v1/settle", post: true, respond: (*API).settle},
	{path: "/v1/keys/", respond: (*API).key},
	{path: "/v1/openapi.json", respond: (*API).openAPI},
	{path: "/v1/problems/", respond: (*API).problem},
	{path: "/healthz", respond: (*API).live},
	{path: "/livez", respond: (*API).live},
	{path: "/readyz", respond: (*API).readiness},
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	for i := range routes {
		to := &routes[i]
		if !to.matches(path) {
			continue
		}
		switch {
		case to.post && r.Method != http.MethodPost:
			w.Header().Set("Allow", "POST")
			a.refuse(w, notAllowed, "")
		case !to.post && r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			a.refuse(w, notAllowed, "")
		default:
			to.respond(a, w, r)
		}
		return
	}
	a.refuse(w, notFound, "")
}

// rest is what follows the beginning of a path, without its escapes. Slashes
// may be in it, escaped or not.
func rest(r *http.Request, beginning string) string {
	after, ok := strings.CutPrefix(r.URL.EscapedPath(), beginning)
	if !ok { // escapes in the beginning
		return strings.TrimPrefix(r.URL.Path, beginning)
	}
	text, err := url.PathUnescape(after)
	if err != nil {
		return after
	}
	return text
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
