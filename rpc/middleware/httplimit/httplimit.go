// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/middleware/internal/asking"
)

// Throttle is what becomes of a request that is over its limit.
type Throttle uint8

const (
	// Reject answers it with 429, or what else fits the reason.
	Reject Throttle = iota
	// Queue lets it wait for its turn, for as long as the key's rule and
	// Options.MaxWait let it, and rejects it beyond. It holds its connection
	// and its goroutine meanwhile: bound the wait.
	Queue
	// Drop closes its connection, or its stream of HTTP/2, without an
	// answer. That is for those who do harm.
	Drop
)

// DefaultMaxWait is the MaxWait of Queue.
const DefaultMaxWait = time.Second

// Options is the setup of a Limit.
type Options struct {
	// Key is the template of a request's key; required.
	Key string

	// Throttle is what becomes of requests over the limit; default Reject.
	Throttle Throttle

	// MaxWait is the longest wait of Queue; default DefaultMaxWait.
	MaxWait time.Duration

	// User says who calls, for {user}; default none.
	User func(*http.Request) string

	// Cost says what a request costs, in tokens; default 1. 0 is free.
	Cost func(*http.Request) int64

	// Route says which route of the service a request takes, for {route}.
	// Default: the pattern of the http.ServeMux that called the handler, without
	// its method. A Limit around a ServeMux runs before the mux has set it, and
	// needs
	//
	//	func(r *http.Request) string { _, pattern := mux.Handler(r); return pattern }
	Route func(*http.Request) string

	// TrustedProxies are the networks of proxies whose X-Forwarded-For is
	// believed, for {ip}. Default none: the address is the connection's.
	TrustedProxies []netip.Prefix

	// TrustUnixSocket believes X-Forwarded-For also from what connects at a Unix
	// socket, as a proxy on the same machine does. Only trusted programs may have
	// permission to connect there. Default false.
	TrustUnixSocket bool

	// Random returns numbers in [0, 1) that spread Retry-After; default
	// rand.Float64.
	Random func() float64

	// Scope is where metrics go: `httplimit.requests`, by reason; default
	// nowhere.
	Scope tally.Scope
}

// Limit limits requests. Use New. It is safe for concurrent use.
type Limit struct {
	asker *asking.Asker
	o     Options
}

// New returns a Limit that asks engine. The error says what is wrong with o.
func New(engine edge.Engine, o Options) (*Limit, error) {
	if o.Throttle > Drop {
		return nil, fmt.Errorf("httplimit: there is no Throttle %d", o.Throttle)
	}
	longest := o.MaxWait
	switch {
	case longest < 0: // which asking refuses
	case o.Throttle != Queue:
		longest = 0
	case longest == 0:
		longest = DefaultMaxWait
	}
	asker, err := asking.New(engine, asking.Setup{
		Name: "httplimit", Counter: "requests", Key: o.Key, MaxWait: longest, Random: o.Random, Scope: o.Scope,
	})
	if err != nil {
		return nil, err
	}
	return &Limit{asker, o}, nil
}

// Wrap returns a handler that lets next handle what is not over the limit.
func (l *Limit) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := l.decide(r)
		switch {
		case err != nil:
			// Not always because the client has gone: a deadline of the server's, or
			// its shutdown, ends the context too.
			answer(w, http.StatusServiceUnavailable, "The request ended before its turn came.", asking.Canceled)
		case d.OK:
			edge.SetRateLimit(w.Header(), &d)
			next.ServeHTTP(w, r)
		case l.o.Throttle == Drop && d.Reason == edge.Limited:
			// This is net/http's way to hang up, which it recovers from, and
			// logs nothing about.
			panic(http.ErrAbortHandler)
		default:
			l.reject(w, &d)
		}
	})
}

// decide takes the tokens of r, and waits for them if it may. The error is
// that of r's context.
func (l *Limit) decide(r *http.Request) (edge.Decision, error) {
	cost := int64(1)
	if l.o.Cost != nil {
		cost = l.o.Cost(r)
	}
	s, _ := sources.Get().(*source) // nothing else is put there
	*s = source{r, &l.o}
	d, err := l.asker.Decide(r.Context(), s, cost)
	*s = source{}
	sources.Put(s)
	return d, err
}

// reject answers that a request is over its limit.
func (l *Limit) reject(w http.ResponseWriter, d *edge.Decision) {
	status, title := explain(d.Reason)
	h := w.Header()
	edge.SetRateLimit(h, d)
	if later := l.asker.Later(d); later > 0 {
		h.Set("Retry-After", edge.Seconds(later))
	}
	answer(w, status, title, d.Reason.String())
}

// answer answers with a problem.
func answer(w http.ResponseWriter, status int, title, reason string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	body, _ := json.Marshal(struct { // of strings and numbers: there is no error
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Reason string `json:"reason"`
	}{"about:blank", title, status, reason})
	_, _ = w.Write(append(body, '\n'))
}

// explain is the status of a reason, and a text for the caller. The caller can
// do nothing about our limits, and so the text says little of them.
func explain(r edge.Reason) (status int, title string) {
	switch r {
	case edge.Limited, edge.TooManyKeys:
		return http.StatusTooManyRequests, "Too many requests."
	case edge.TooCostly:
		return http.StatusRequestEntityTooLarge, "The request asks for more than one request may."
	case edge.Unmatched:
		return http.StatusForbidden, "Nothing of this is allowed."
	case edge.InvalidKey:
		return http.StatusBadRequest, "The request does not say who it is from."
	default:
		return http.StatusServiceUnavailable, "The limit could not be checked."
	}
}
