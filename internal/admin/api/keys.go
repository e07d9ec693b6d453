// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/limiter/explain"
)

// keys answers the keys in use at this daemon.
func (a *API) keys(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	n, err := page(r, 100, 1000)
	if err != nil {
		return err
	}
	like, after := r.URL.Query().Get("like"), r.URL.Query().Get("after")
	// Private keys are found by what is shown of them only.
	type named struct{ shown, name string }
	limits, inUse := a.Limits.Current(), a.Keys()
	var found []named
	for _, name := range inUse {
		if shown := limits.Shown(name); shown > after && strings.Contains(shown, like) && who.MaySee(name) {
			found = append(found, named{shown, name})
		}
	}
	slices.SortFunc(found, func(a, b named) int { return strings.Compare(a.shown, b.shown) })
	all, next := []explain.Key{}, ""
	for _, f := range found {
		if len(all) == n {
			next = all[n-1].Key
			break
		}
		if k := a.Look(f.name); k.InUse { // else it has just gone
			all = append(all, k)
		}
	}
	return send(w, http.StatusOK, struct {
		Keys  []explain.Key `json:"keys"`
		Total int           `json:"total"`          // in use at this daemon
		Next  string        `json:"next,omitempty"` // what to send as after for more
	}{all, len(inUse), next})
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
