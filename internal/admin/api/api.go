// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
)

// Options are what an API answers from. What has no default is required. Functions are
// called by many goroutines.
type Options struct {
	// Limits are those in force.
	Limits *dynamicconfig.Live

	// Store has their versions. Default none: the limits are in a file, and nobody
	// changes them here.
	Store history.Store

	// Operators says who may see and change what.
	Operators func() *callers.Policy

	// Status returns which limits are in force, and Cluster what is known of the members:
	// any values that JSON has.
	Status, Cluster func() any

	// Keys returns the keys in use at this daemon, in any order.
	Keys func() []string

	// OwnedKeys returns the keys that this daemon owns and that hosts use, in any order, and
	// Owned what it knows of one of them as its owner.
	OwnedKeys func() []string
	Owned     func(key string) []explain.Owned

	// Counts calls f with what each key in use has counted at this daemon, in any order.
	Counts func(f func(limiter.Count))

	// Programs calls f with what programs that report at this daemon's edge did lately with
	// each key, in tokens, in any order.
	Programs func(f func(key string, allowed, rejected float64))

	// Look returns what this daemon knows of one key.
	Look func(key string) explain.Key

	// Explain returns why key is limited as it is, for people, from all members that
	// answer.
	Explain func(ctx context.Context, key string) explain.Explanation

	// Trace has all members begin, or end, to remember decisions about key. It returns an
	// error for each that does not.
	Trace func(ctx context.Context, key string, on bool) map[string]error

	// Compare returns how old and new limiters of keys under migration answered, by key and
	// member, and how many members do not answer.
	Compare func(ctx context.Context) (rows []Compared, silent int)

	// Reset has all members make the bucket of key full again. It returns an error for
	// each that does not.
	Reset func(ctx context.Context, key string) map[string]error

	// History is what the members remember of the last hour.
	History History

	// Busiest is what the members do now.
	Busiest Busiest

	// Events are what happens.
	Events *Events

	// Log is told of each change, and of each refused one.
	Log *slog.Logger
}

// API answers operators. Use New. It is safe for concurrent use.
type API struct {
	Options

	mux    *http.ServeMux
	logins logins
	cross  *http.CrossOriginProtection
}

// New returns the API of o.
func New(o Options) *API {
	a := &API{Options: o, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection()}
	for pattern, answer := range map[string]answer{
		"GET /v1/limits":                   a.newest,
		"PUT /v1/limits":                   a.put,
		"GET /v1/limits/status":            a.status,
		"POST /v1/limits/check":            a.check,
		"POST /v1/limits/rollback":         a.rollback,
		"GET /v1/limits/history":           a.history,
		"GET /v1/limits/history/{version}": a.version,
		"GET /v1/limits/rules":             a.rules,
		"PUT /v1/limits/rule":              a.putRule,
		"DELETE /v1/limits/rule":           a.deleteRule,
		"GET /v1/me":                       a.me,
		"GET /v1/keys":                     a.keys,
		"POST /v1/keys/reset":              a.reset,
		"POST /v1/limits/dry-run":          a.dryRun,
		"GET /v1/limits/suggest":           a.suggest,
		"GET /v1/migrations":               a.migrations,
		"POST /v1/migrations/step":         a.step,
		"GET /v1/usage":                    a.usage,
		"GET /v1/top":                      a.top,
		"GET /v1/explain":                  a.explain,
		"GET /v1/explain/past":             a.then,
		"PUT /v1/trace":                    a.trace,
		"DELETE /v1/trace":                 a.trace,
		"GET /v1/cluster":                  a.cluster,
		"GET /v1/events":                   a.events,
	} {
		a.Handle(pattern, answer)
	}
	a.mux.HandleFunc("GET /v1/openapi.json", describe)
	a.mux.HandleFunc("POST /v1/login", a.login)
	a.mux.HandleFunc("POST /v1/logout", a.logout)
	a.mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, refuse(http.StatusNotFound, "there is nothing at %s %.100q: look at /v1/openapi.json for what there is", r.Method, r.URL.Path))
	})
	return a
}

// answer answers a request of who, who may see something. An error that is no *Problem is
// one of a database, or of another daemon.
type answer func(w http.ResponseWriter, r *http.Request, who *callers.Caller) error

// Handle adds what operators may ask.
func (a *API) Handle(pattern string, f func(w http.ResponseWriter, r *http.Request, who *callers.Caller) error) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		who, err := a.who(r)
		if err == nil {
			err = f(w, r, who)
		}
		if err != nil {
			a.fail(w, r, err)
		}
	})
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if err := a.cross.Check(r); err != nil {
		a.fail(w, r, refuse(http.StatusForbidden, "a page of another site had a browser send this: open the page of this daemon"))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// maxAnswer is how long the other members are waited for. It is less than callers wait, 10 s by
// default, so that they hear which member did not answer.
const maxAnswer = 5 * time.Second

// send answers with v as JSON.
func send(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
	return nil
}

// page is how much of a list is wanted: n of a query, in 1 to most.
func page(r *http.Request, usual, most int) (n int, err error) {
	text := r.URL.Query().Get("n")
	if text == "" {
		return usual, nil
	}
	if n, err = strconv.Atoi(text); err != nil || n < 1 || n > most {
		return 0, refuse(http.StatusBadRequest, "n=%.20q: ask for 1 to %d", text, most)
	}
	return n, nil
}

// number is a whole number of a query, at least 0; 0 if it is not there.
func number(r *http.Request, name string) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, refuse(http.StatusBadRequest, "%s=%.20q: write the number of a version", name, text)
	}
	return n, nil
}

// status answers which limits are in force.
func (a *API) status(w http.ResponseWriter, _ *http.Request, _ *callers.Caller) error {
	return send(w, http.StatusOK, a.Status())
}

// cluster answers what the members are.
func (a *API) cluster(w http.ResponseWriter, _ *http.Request, _ *callers.Caller) error {
	return send(w, http.StatusOK, a.Cluster())
}
