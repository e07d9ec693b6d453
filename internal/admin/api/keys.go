// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/limiter/explain"
)

// orders are those of keys: how much comes first. The order by name has pages.
var orders = map[string]func(k *explain.Key) float64{
	"name":     nil,
	"rejected": func(k *explain.Key) float64 { return float64(k.Rejected) },
	"allowed":  func(k *explain.Key) float64 { return float64(k.Allowed) },
	"used":     used,
}

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
	sort := cmp.Or(q.Get("sort"), "name")
	amount, known := orders[sort]
	if !known {
		return refuse(http.StatusBadRequest, "sort=%.20q: sort by %s", sort, strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
	}
	names := a.Keys()
	total := len(names)
	names = slices.DeleteFunc(names, func(name string) bool { return !who.MaySee(name) })
	var found listed
	if amount == nil {
		found = a.byName(names, q.Get("like"), q.Get("after"), n)
	} else {
		found = a.byAmount(names, q.Get("like"), amount, n)
	}
	found.Total = total
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

// byAmount are the n keys with the largest amounts.
func (a *API) byAmount(names []string, like string, amount func(*explain.Key) float64, n int) listed {
	larger := func(a, b explain.Key) int {
		return cmp.Or(cmp.Compare(amount(&b), amount(&a)), strings.Compare(a.Key, b.Key))
	}
	top := []explain.Key{} // with room for twice as many, so that it is sorted seldom
	for _, name := range names {
		k := a.Look(name)
		if !k.InUse || !strings.Contains(k.Key, like) {
			continue
		}
		if top = append(top, k); len(top) == 2*n {
			slices.SortFunc(top, larger)
			top = top[:n]
		}
	}
	slices.SortFunc(top, larger)
	return listed{Keys: top[:min(n, len(top))]}
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
