// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/limiter/explain"
)

// cluster is what a daemon knows of the members.
type cluster struct {
	Host    string   `json:"host"`
	Members []member `json:"members"`
}

type member struct {
	Address string    `json:"address"`
	State   string    `json:"state"`
	Since   time.Time `json:"since"`
	Why     string    `json:"why"`
	Labels  string    `json:"labels"`
	Share   float64   `json:"share"`
}

// keyList is a list of keys, and how it was asked for.
type keyList struct {
	Keys  []explain.Key `json:"keys"`
	Total int           `json:"total"`
	Next  string        `json:"next"`

	Like, Sort string `json:"-"`
}

// ask asks for n keys.
func (l *keyList) ask(u *UI, r *http.Request, like, sort, after, n string) error {
	query := url.Values{"like": {like}, "sort": {sort}, "after": {after}, "n": {n}}
	l.Like, l.Sort = like, sort
	return u.ask(r, http.MethodGet, "/v1/keys?"+query.Encode(), "", l)
}

// past asks for the n newest events, the newest first.
func (u *UI) past(r *http.Request, n int) ([]events.Event, error) {
	var all struct {
		Events []events.Event `json:"events"`
	}
	err := u.ask(r, http.MethodGet, "/v1/events?past", "", &all)
	slices.Reverse(all.Events)
	return all.Events[:min(n, len(all.Events))], err
}

// status is what is in force.
type status struct {
	Name  string `json:"name"`
	Rules int    `json:"rules"`
	Error string `json:"error"`
}

// overview shows what matters now.
func (u *UI) overview(w http.ResponseWriter, r *http.Request) error {
	var p struct {
		Cluster           cluster
		Up, Total         int
		Config            status
		Holds             overrideList
		Rejected, Allowed []explain.Key
		Events            []events.Event
	}
	if err := u.ask(r, http.MethodGet, "/v1/cluster", "", &p.Cluster); err != nil {
		return err
	}
	for _, m := range p.Cluster.Members {
		if m.State == "up" {
			p.Up++
		}
	}
	if err := u.ask(r, http.MethodGet, "/v1/limits/status", "", &p.Config); err != nil {
		return err
	}
	if err := p.Holds.ask(u, r); err != nil {
		return err
	}
	var rejected, allowed keyList
	if err := rejected.ask(u, r, "", "rejected", "", "10"); err != nil {
		return err
	}
	if err := allowed.ask(u, r, "", "allowed", "", "10"); err != nil {
		return err
	}
	p.Rejected, p.Allowed, p.Total = rejected.Keys, allowed.Keys, rejected.Total
	p.Rejected = slices.DeleteFunc(p.Rejected, func(k explain.Key) bool { return k.Rejected == 0 })
	var err error
	if p.Events, err = u.past(r, 8); err != nil {
		return err
	}
	return u.show(w, r, "Overview", "overview", "overview-part", &p)
}

// keys shows the keys in use.
func (u *UI) keys(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var list keyList
	if err := list.ask(u, r, q.Get("like"), cmp.Or(q.Get("sort"), "name"), q.Get("after"), "100"); err != nil {
		return err
	}
	return u.show(w, r, "Keys", "keys", "keys-part", list)
}

// memory is the newest decisions about a key, of all hosts that remember them.
type memory struct {
	Hosts int // that remember decisions
	Total int // decisions
	All   bool
	Shown []remembered // the newest first
}

type remembered struct {
	Host string
	explain.Decision
}

// newMemory returns what hosts remember in e: all of it, or what has room on a page.
func newMemory(e *explain.Explanation, all bool) memory {
	const room = 25
	m := memory{All: all}
	for _, h := range e.Hosts {
		if h.Traced {
			m.Hosts++
		}
		for _, d := range h.Decisions {
			m.Shown = append(m.Shown, remembered{h.Host, d})
		}
	}
	m.Total = len(m.Shown)
	slices.SortStableFunc(m.Shown, func(a, b remembered) int { return b.Time.Compare(a.Time) })
	if !all {
		m.Shown = m.Shown[:min(room, m.Total)]
	}
	return m
}

// key shows one key.
func (u *UI) key(w http.ResponseWriter, r *http.Request) error {
	var p struct {
		Key         string
		Explanation explain.Explanation
		Remembered  memory
		Editable    bool // the bucket of Key
		Overrides   bool // may be made for Key
	}
	p.Key = r.URL.Query().Get("key")
	query := url.Values{"key": {p.Key}}.Encode()
	if err := u.ask(r, http.MethodGet, "/v1/explain?"+query, "", &p.Explanation); err != nil {
		return err
	}
	p.Remembered = newMemory(&p.Explanation, r.URL.Query().Get("decisions") == "all")
	if r.Header.Get("HX-Request") == "" {
		var who api.Me
		if err := u.ask(r, http.MethodGet, "/v1/me?"+query, "", &who); err != nil {
			return err
		}
		p.Editable = who.Changes
		var newest any
		p.Overrides = p.Editable && u.ask(r, http.MethodGet, "/v1/limits/history?n=1", "", &newest) == nil // else they are in a file
	}
	return u.show(w, r, p.Key, "key", "key-part", p)
}

// trace has the members begin, or end, to remember decisions.
func (u *UI) trace(w http.ResponseWriter, r *http.Request) error {
	method := http.MethodDelete
	if r.PostFormValue("on") == "true" {
		method = http.MethodPut
	}
	var done any
	if err := u.ask(r, method, "/v1/trace?"+url.Values{"key": {r.URL.Query().Get("key")}}.Encode(), "", &done); err != nil {
		return err
	}
	return u.key(w, r)
}

// reset has the members make the bucket of a key full again.
func (u *UI) reset(w http.ResponseWriter, r *http.Request) error {
	var done struct {
		Failed map[string]string `json:"failed"`
	}
	if err := u.ask(r, http.MethodPost, "/v1/keys/reset?"+url.Values{"key": {r.URL.Query().Get("key")}}.Encode(), "", &done); err != nil {
		return err
	}
	return u.part(w, http.StatusOK, "reset", done.Failed)
}

// hosts shows the members.
func (u *UI) hosts(w http.ResponseWriter, r *http.Request) error {
	var p struct{ Cluster cluster }
	if err := u.ask(r, http.MethodGet, "/v1/cluster", "", &p.Cluster); err != nil {
		return err
	}
	return u.show(w, r, "Hosts and ring", "hosts", "hosts-part", p)
}

// events shows what happened.
func (u *UI) events(w http.ResponseWriter, r *http.Request) error {
	var p struct{ Events []events.Event }
	var err error
	if p.Events, err = u.past(r, 1000); err != nil {
		return err
	}
	if r.Header.Get("HX-Request") != "" {
		return u.part(w, http.StatusOK, "eventlist", p.Events)
	}
	return u.show(w, r, "Events", "events", "", p)
}
