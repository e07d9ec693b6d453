// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/daemon/callers"
)

// Key is what one daemon knows of a key. Rates are in events/s.
type Key struct {
	Key       string `json:"key"`
	Rule      string `json:"rule,omitempty"` // its pattern
	Algorithm string `json:"algorithm,omitempty"`
	Mode      string `json:"mode,omitempty"` // of a migration

	// Limit and Burst are this host's part now; Tokens is what is there of it, negative
	// in debt. Left out where there is no limit.
	Limit  *float64 `json:"limit,omitempty"`
	Burst  *float64 `json:"burst,omitempty"`
	Tokens *float64 `json:"tokens,omitempty"`

	// Weight is the part of the limit that the key's owner granted, in [0, 1], and Lease
	// for how much longer.
	Weight float64       `json:"weight"`
	Lease  time.Duration `json:"lease_ns"`

	// Fallback: there is no grant, or the bucket elsewhere does not answer.
	Fallback bool `json:"fallback"`

	// Asks: its bucket is elsewhere, and is asked for each event.
	Asks bool `json:"asks"`

	// Allowed and Rejected count cost since the key came to life at this host.
	Allowed  int64 `json:"allowed"`
	Rejected int64 `json:"rejected"`

	// Held and Waiting are slots in flight.
	Held    int64 `json:"held,omitempty"`
	Waiting int64 `json:"waiting,omitempty"`

	// Private: Key is not whole, because its rule says so.
	Private bool `json:"private,omitempty"`
}

// Explanation is why a key is limited as it is.
type Explanation struct {
	Key string `json:"key"`

	// Because says in a sentence what decides about the key now.
	Because string `json:"because"`

	// Rule has the fields of the key's rule; nil if there is none.
	Rule map[string]any `json:"rule,omitempty"`

	// Owner is the member that owns the key. OwnerAnswers is false if it did not answer
	// just now.
	Owner        string `json:"owner"`
	OwnerAnswers bool   `json:"owner_answers"`

	// Hosts is what each member knows of the key, sorted by name.
	Hosts []HostKey `json:"hosts"`
}

// HostKey is what one member knows of a key.
type HostKey struct {
	Host string `json:"host"`

	// Error is why the member did not answer; empty if it did.
	Error string `json:"error,omitempty"`

	// Key is nil if nobody uses it there.
	Key *Key `json:"key,omitempty"`

	// Because says why requests are refused there now, or how they are decided.
	Because string `json:"because,omitempty"`
}

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
	all, next := []Key{}, ""
	for _, f := range found {
		if len(all) == n {
			next = all[n-1].Key
			break
		}
		if k, ok := a.Look(f.name); ok { // else it has just gone
			k.Key, k.Private = f.shown, f.shown != f.name
			all = append(all, k)
		}
	}
	return send(w, http.StatusOK, struct {
		Keys  []Key  `json:"keys"`
		Total int    `json:"total"`          // in use at this daemon
		Next  string `json:"next,omitempty"` // what to send as after for more
	}{all, len(inUse), next})
}

// explain answers why a key is limited as it is.
func (a *API) explain(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key := r.URL.Query().Get("key")
	if key == "" || len(key) > 1024 {
		return refuse(http.StatusBadRequest, "say which key, of 1 to 1024 bytes, as in ?key=login:alice")
	}
	if !who.MaySee(key) {
		return refuse(http.StatusForbidden, "you may not see this key: your \"see\" in the file of operators has no pattern for it")
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxAnswer)
	defer cancel()
	return send(w, http.StatusOK, a.Explain(ctx, key))
}
