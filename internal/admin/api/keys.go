// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/largest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
)

// orders are those of keys. The order by name has pages.
var orders = []string{"allowed", "name", "rejected", "used"}

// used is how near this host is to its part of the limit: the part of the burst that is
// missing, above 1 in debt. Of a key that only others use, it is 0.
func used(c *limiter.Count, here bool) float64 {
	if !here {
		return 0
	}
	l := c.Level()
	if l.Limit >= rate.Inf || l.Burst <= 0 {
		return 0
	}
	return 1 - l.Tokens/l.Burst
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
		found = a.byName(who, like, q.Get("after"), n)
	case "rejected":
		found = a.byCount(who, like, func(c *limiter.Count, _ bool) float64 { return float64(c.Rejected) }, n)
	case "allowed":
		found = a.byCount(who, like, func(c *limiter.Count, _ bool) float64 { return float64(c.Allowed) }, n)
	case "used":
		found = a.byCount(who, like, used, n)
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
// that only. Those that this daemon owns are among them, also if only other hosts use them:
// programs that listen nowhere, for instance.
func (a *API) byName(who *callers.Caller, like, after string, n int) listed {
	type named struct{ shown, name string }
	limits := a.Limits.Current()
	// A key that is used here and owned here comes twice.
	first := largest.New(2*(n+1), func(a, b named) int { return strings.Compare(a.shown, b.shown) })
	for _, names := range [][]string{a.Keys(), a.OwnedKeys()} {
		for _, name := range names {
			if shown := limits.Shown(name); shown > after && strings.Contains(shown, like) {
				if f := (named{shown, name}); first.Wants(f) && who.MaySee(name) {
					first.Add(f)
				}
			}
		}
	}
	page := listed{Keys: []explain.Key{}}
	for _, f := range slices.Compact(first.Sorted()) {
		if len(page.Keys) == n {
			page.Next = page.Keys[n-1].Key
			break
		}
		k := a.Look(f.name)
		k.UsedBy = a.usedBy(f.name)
		if k.InUse || k.UsedBy > 0 { // else it has just gone
			page.Keys = append(page.Keys, k)
		}
	}
	return page
}

// usedBy is how many hosts use key, which this daemon owns; 0 if it does not.
func (a *API) usedBy(key string) (hosts int) {
	for _, o := range a.Owned(key) {
		hosts = max(hosts, len(o.Hosts))
	}
	return hosts
}

// room is for keys that come to life while others are listed: a slice of 100,000 that grows costs
// more than what it is for.
const room = 1000

// byCount are the n keys of the largest amounts. It looks only at those. What programs did that
// report at this daemon's edge is among the counters, and so are keys that they alone use.
func (a *API) byCount(who *callers.Caller, like string, amount func(c *limiter.Count, here bool) float64, n int) listed {
	type counted struct {
		*limiter.Count
		amount float64
	}
	programs := make(map[string][2]int64) // what they were allowed, and rejected
	a.Programs(func(key string, allowed, rejected float64) {
		programs[key] = [2]int64{int64(allowed), int64(rejected)}
	})
	all := make([]limiter.Count, 0, len(a.Keys())+len(programs)+room)
	only := maps.Clone(programs)
	a.Counts(func(c limiter.Count) {
		if len(programs) > 0 {
			delete(only, c.Key)
			p := programs[c.Key]
			c.Allowed, c.Rejected = c.Allowed+p[0], c.Rejected+p[1]
		}
		all = append(all, c)
	})
	here := len(all)
	limits := a.Limits.Current()
	for key, p := range only {
		if rule, ok := limits.Match(key); ok {
			all = append(all, limiter.Count{Key: key, Rule: rule, Allowed: p[0], Rejected: p[1]})
		}
	}
	most := largest.New(n, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.amount, a.amount), strings.Compare(a.Key, b.Key))
	})
	for i := range all {
		c := counted{&all[i], amount(&all[i], i < here)}
		if most.Wants(c) && who.MaySee(c.Key) && strings.Contains(c.Rule.Shown(c.Key), like) {
			most.Add(c)
		}
	}
	found := listed{Keys: []explain.Key{}}
	for _, c := range most.Sorted() {
		k := a.Look(c.Key)
		if p, too := programs[c.Key]; too {
			k.Allowed, k.Rejected, k.UsedBy = k.Allowed+p[0], k.Rejected+p[1], a.usedBy(c.Key)
			found.Keys = append(found.Keys, k)
		} else if k.InUse { // else it has just gone
			found.Keys = append(found.Keys, k)
		}
	}
	return found
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
	return send(w, http.StatusOK, map[string]any{"failed": failures(ctx, a.Trace(ctx, key, r.Method == http.MethodPut))})
}

// failures says of each member why it did not do what it was told under ctx.
func failures(ctx context.Context, errs map[string]error) map[string]string {
	failed := make(map[string]string)
	for host, err := range errs {
		if failed[host] = err.Error(); ctx.Err() != nil {
			failed[host] = fmt.Sprintf("it did not answer in %v, and may do it when it answers again", maxAnswer)
		}
	}
	return failed
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
