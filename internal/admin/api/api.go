// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/access"
	"github.com/headgate/headgate/internal/admin/api/busiest"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/keys"
	"github.com/headgate/headgate/internal/admin/api/large"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/admin/api/migrate"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/admin/api/versions"
	"github.com/headgate/headgate/internal/daemon/callers"
)

// Options are what an API answers from. What has no default is required. Functions are
// called by many goroutines.
type Options struct {
	// Limits are those in force.
	Limits *dynamicconfig.Live

	// Store has their versions. Default none: the limits are in a file, and no caller
	// changes them here.
	Store history.Store

	// Operators says who may see and change what.
	Operators func() *callers.Policy

	// Status returns which limits are in force, and Cluster what is known of the members:
	// any values that JSON has.
	Status, Cluster func() any

	// Keys are what this daemon and its members know of keys.
	Keys keys.Source

	// Compare returns how old and new limiters of keys under migration answered, by key and
	// member, and which members do not answer.
	Compare func(ctx context.Context) (rows []migrate.Compared, silent []string)

	// History is what the members remember of the last hour.
	History lasthour.History

	// Busiest is what the members do now.
	Busiest busiest.Source

	// Events are what happens.
	Events *events.Feed

	// Log gets a line for each change, and for each refused one.
	Log *slog.Logger
}

// API answers operators. Use New. It is safe for concurrent use.
type API struct {
	mux   *http.ServeMux
	names map[string][]string // of a query, by pattern
	gate  *access.Gate
	turn  large.Turn
	room  large.Room
	cross *http.CrossOriginProtection
}

// New returns the API of o.
func New(o Options) *API {
	a := &API{mux: http.NewServeMux(), names: parameters(), gate: access.New(o.Operators, o.Log), turn: large.New(), cross: http.NewCrossOriginProtection()}
	if o.Store != nil {
		o.Store = patient{o.Store}
	}
	// Requests that read whole texts take as much memory as the texts have.
	much := func() bool { return len(o.Limits.Current().Text()) > large.Small }
	never := func() bool { return false }
	texts := &versions.Answers{Limits: o.Limits, Store: o.Store, Events: o.Events, Log: o.Log}
	for _, routes := range []map[string]reply.Handler{
		texts.Routes(),
		(&migrate.Answers{Limits: o.Limits, Compare: o.Compare, Versions: texts}).Routes(),
		(&lasthour.Answers{Limits: o.Limits, Store: o.Store, History: o.History, Explain: o.Keys.Explain, Events: o.Events}).Routes(),
	} {
		for pattern, answer := range routes {
			a.handle(pattern, a.kept(answer, much))
		}
	}
	for _, routes := range []map[string]reply.Handler{
		(&keys.Answers{Source: o.Keys, Limits: o.Limits, Events: o.Events, Log: o.Log}).Routes(),
		(&busiest.Answers{Limits: o.Limits, Source: o.Busiest}).Routes(),
		{
			"GET /v1/me":            me(o.Limits),
			"GET /v1/limits/status": value(o.Status),
			"GET /v1/cluster":       value(o.Cluster),
		},
	} {
		for pattern, answer := range routes {
			a.handle(pattern, a.kept(answer, never))
		}
	}
	a.handle("GET /v1/events", a.stream(o.Events))
	a.mux.HandleFunc("GET /v1/openapi.json", describe)
	a.mux.HandleFunc("POST /v1/login", a.gate.Login)
	a.mux.HandleFunc("POST /v1/logout", a.gate.Logout)
	a.mux.HandleFunc(others, a.nothing)
	return a
}

// others is the pattern of the requests that nothing else answers.
const others = "/v1/"

// nothing refuses a request: its path does not exist, or has other methods.
func (a *API) nothing(w http.ResponseWriter, r *http.Request) {
	var methods []string
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if _, pattern := a.mux.Handler(&http.Request{Method: m, URL: r.URL, Host: r.Host}); pattern != others {
			methods = append(methods, m)
		}
	}
	if len(methods) == 0 {
		reply.Fail(w, reply.Refuse(http.StatusNotFound, "there is nothing at %.100q: look at /v1/openapi.json for what there is", r.URL.Path))
		return
	}
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	reply.Fail(w, reply.Refuse(http.StatusMethodNotAllowed, "%.20s is no method of %.100q: use %s", r.Method, r.URL.Path, allowed))
}

// handle adds what operators may ask.
func (a *API) handle(pattern string, answer reply.Handler) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		who, err := a.gate.Who(r)
		if err == nil {
			err = checkQuery(r, a.names[pattern])
		}
		if err == nil {
			err = answer(w, r, who)
		}
		if err != nil {
			reply.Fail(w, err)
		}
	})
}

// kept makes the answer to a request that is large, or takes much memory, after those before it, and
// then sends it, if there is room: a slow reader keeps no other request from its turn.
func (a *API) kept(answer reply.Handler, much func() bool) reply.Handler {
	return func(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
		made := large.NewAnswer(w.Header())
		if err := a.inTurn(w, made, r, who, answer, much()); err != nil {
			return err
		}
		return a.room.Send(w, made)
	}
}

// inTurn makes the answer to r when it is its turn.
func (a *API) inTurn(w http.ResponseWriter, made *large.Answer, r *http.Request, who *callers.Caller, answer reply.Handler, much bool) error {
	done, err := a.turn.Wait(w, r, much)
	if err != nil {
		return err
	}
	defer done()
	return answer(made, r, who)
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if err := a.cross.Check(r); err != nil {
		reply.Fail(w, reply.Refuse(http.StatusForbidden, "a page of another site had a browser send this: open the page of this daemon"))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// value answers with what f returns.
func value(f func() any) reply.Handler {
	return func(w http.ResponseWriter, _ *http.Request, _ *callers.Caller) error {
		return reply.JSON(w, http.StatusOK, f())
	}
}

// stream answers what happens, to an operator who still may see something.
func (a *API) stream(feed *events.Feed) reply.Handler {
	past := a.kept(func(w http.ResponseWriter, _ *http.Request, _ *callers.Caller) error { return feed.Past(w) }, func() bool { return false })
	return func(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
		remembered, err := reply.Flag(r, "past")
		if err != nil {
			return err
		}
		if remembered {
			return past(w, r, who)
		}
		return feed.Stream(w, r, func() bool {
			_, err := a.gate.Who(r)
			return err == nil
		})
	}
}

// me answers who asks, and what that operator may do.
func me(limits *dynamicconfig.Live) reply.Handler {
	return func(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
		may := who.MayChangeAny()
		if key := r.URL.Query().Get("key"); key != "" {
			may = keys.MayChange(limits.Current(), key, who) == nil
		}
		return reply.JSON(w, http.StatusOK, Me{Name: who.Name(), Changes: may})
	}
}

// Me is who asks.
type Me struct {
	Name    string `json:"name"`    // empty: anyone
	Changes bool   `json:"changes"` // some rules, or the limit of the key that was asked for
}
