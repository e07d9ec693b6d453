// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

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

// listKeys asks for n keys.
func (u *UI) listKeys(r *http.Request, like, sort, after, n string) (list keyList, err error) {
	query := url.Values{"like": {like}, "sort": {sort}, "after": {after}, "n": {n}}
	err = u.ask(r, http.MethodGet, "/v1/keys?"+query.Encode(), "", &list)
	list.Like, list.Sort = like, sort
	return list, err
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
	rejected, err := u.listKeys(r, "", "rejected", "", "10")
	if err != nil {
		return err
	}
	allowed, err := u.listKeys(r, "", "allowed", "", "10")
	if err != nil {
		return err
	}
	p.Rejected, p.Allowed, p.Total = rejected.Keys, allowed.Keys, rejected.Total
	p.Rejected = slices.DeleteFunc(p.Rejected, func(k explain.Key) bool { return k.Rejected == 0 })
	if p.Events, err = u.past(r, 8); err != nil {
		return err
	}
	return u.show(w, r, "Overview", "overview", "overview-part", p)
}

// keys shows the keys in use.
func (u *UI) keys(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	list, err := u.listKeys(r, q.Get("like"), cmp.Or(q.Get("sort"), "name"), q.Get("after"), "100")
	if err != nil {
		return err
	}
	return u.show(w, r, "Keys", "keys", "keys-part", list)
}

// key shows one key.
func (u *UI) key(w http.ResponseWriter, r *http.Request) error {
	return u.explained(w, r, r.URL.Query().Get("key"))
}

func (u *UI) explained(w http.ResponseWriter, r *http.Request, key string) error {
	var p struct {
		Key         string
		Explanation explain.Explanation
	}
	p.Key = key
	if err := u.ask(r, http.MethodGet, "/v1/explain?"+url.Values{"key": {key}}.Encode(), "", &p.Explanation); err != nil {
		return err
	}
	return u.show(w, r, key, "key", "key-part", p)
}

// trace has the members begin, or end, to remember decisions.
func (u *UI) trace(w http.ResponseWriter, r *http.Request) error {
	key, method := r.PostFormValue("key"), http.MethodDelete
	if r.PostFormValue("on") == "true" {
		method = http.MethodPut
	}
	var done any
	if err := u.ask(r, method, "/v1/trace?"+url.Values{"key": {key}}.Encode(), "", &done); err != nil {
		return err
	}
	return u.explained(w, r, key)
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
