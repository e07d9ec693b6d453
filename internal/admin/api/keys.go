// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/largest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
)

// orders are those of keys. The order by name has pages.
var orders = []string{"allowed", "name", "rejected", "used"}

// used is how near this host is to its part of the limit: the part of the burst that is
// missing, above 1 in debt.
func used(k *explain.Key) float64 {
	if k.Tokens == nil || k.Burst == nil || *k.Burst <= 0 {
		return 0
	}
	return 1 - *k.Tokens / *k.Burst
}

// keys answers the keys in use at this daemon.
func (a *API) keys(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	n, err := page(r, 100, 1000)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	like := q.Get("like")
	var found listed
	switch sort := cmp.Or(q.Get("sort"), "name"); sort {
	case "name":
		found = a.byName(a.visible(who), like, q.Get("after"), n)
	case "rejected":
		found = a.byCount(who, like, func(c *limiter.Count) int64 { return c.Rejected }, n)
	case "allowed":
		found = a.byCount(who, like, func(c *limiter.Count) int64 { return c.Allowed }, n)
	case "used":
		found = a.byUse(a.visible(who), like, n)
	default:
		return refuse(http.StatusBadRequest, "sort=%.20q: sort by %s", sort, strings.Join(orders, ", "))
	}
	found.Total = len(a.Keys())
	return send(w, http.StatusOK, found)
}

// listed are keys in an order.
type listed struct {
	Keys  []explain.Key `json:"keys"`
	Total int           `json:"total"`          // in use at this daemon
	Next  string        `json:"next,omitempty"` // what to send as after for more
}

// byName are n keys after one, by what is shown of their names: private keys are found by
// that only.
func (a *API) byName(names []string, like, after string, n int) listed {
	type named struct{ shown, name string }
	limits := a.Limits.Current()
	var found []named
	for _, name := range names {
		if shown := limits.Shown(name); shown > after && strings.Contains(shown, like) {
			found = append(found, named{shown, name})
		}
	}
	slices.SortFunc(found, func(a, b named) int { return strings.Compare(a.shown, b.shown) })
	page := listed{Keys: []explain.Key{}}
	for _, f := range found {
		if len(page.Keys) == n {
			page.Next = page.Keys[n-1].Key
			break
		}
		if k := a.Look(f.name); k.InUse { // else it has just gone
			page.Keys = append(page.Keys, k)
		}
	}
	return page
}

// visible returns the keys in use that the caller may see.
func (a *API) visible(who *callers.Caller) []string {
	return slices.DeleteFunc(a.Keys(), func(name string) bool { return !who.MaySee(name) })
}

// byCount are the n keys that have counted most. It looks only at those.
func (a *API) byCount(who *callers.Caller, like string, amount func(*limiter.Count) int64, n int) listed {
	type counted struct {
		name   string
		rule   *dynamicconfig.Rule
		amount int64
	}
	var all []counted
	a.Counts(func(c limiter.Count) { all = append(all, counted{c.Key, c.Rule, amount(&c)}) })
	most := largest.New(n, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.amount, a.amount), strings.Compare(a.name, b.name))
	})
	for _, c := range all {
		if most.Wants(c) && who.MaySee(c.name) && strings.Contains(c.rule.Shown(c.name), like) {
			most.Add(c)
		}
	}
	found := listed{Keys: []explain.Key{}}
	for _, c := range most.Sorted() {
		if k := a.Look(c.name); k.InUse { // else it has just gone
			found.Keys = append(found.Keys, k)
		}
	}
	return found
}

// byUse are the n keys that are nearest to this host's part of their limits.
func (a *API) byUse(names []string, like string, n int) listed {
	most := largest.New(n, func(a, b explain.Key) int {
		return cmp.Or(cmp.Compare(used(&b), used(&a)), strings.Compare(a.Key, b.Key))
	})
	for _, name := range names {
		if k := a.Look(name); k.InUse && strings.Contains(k.Key, like) {
			most.Add(k)
		}
	}
	return listed{Keys: append([]explain.Key{}, most.Sorted()...)}
}

// me answers who asks, and what that operator may do.
func (a *API) me(w http.ResponseWriter, _ *http.Request, who *callers.Caller) error {
	return send(w, http.StatusOK, Me{Name: who.Name(), Changes: who.MayChangeAny()})
}

// Me is who asks.
type Me struct {
	Name    string `json:"name"`    // empty: anyone
	Changes bool   `json:"changes"` // some rules
}

// keyOf is the key that r is about, which who may see.
func keyOf(r *http.Request, who *callers.Caller) (string, error) {
	key := r.URL.Query().Get("key")
	if key == "" || len(key) > 1024 {
		return "", refuse(http.StatusBadRequest, "say which key, of 1 to 1024 bytes, as in ?key=login:alice")
	}
	if !who.MaySee(key) {
		return "", refuse(http.StatusForbidden, "you may not see this key: your \"see\" in the file of operators has no pattern for it")
	}
	return key, nil
}

// trace has all members begin, or end, to remember decisions about a key.
func (a *API) trace(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key, err := keyOf(r, who)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxAnswer)
	defer cancel()
	failed := make(map[string]string)
	for host, err := range a.Trace(ctx, key, r.Method == http.MethodPut) {
		failed[host] = err.Error()
	}
	return send(w, http.StatusOK, map[string]any{"failed": failed})
}

// explain answers why a key is limited as it is.
func (a *API) explain(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key, err := keyOf(r, who)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxAnswer)
	defer cancel()
	return send(w, http.StatusOK, a.Explain(ctx, key))
}
