// SPDX-License-Identifier: Apache-2.0

// Package keys answers about keys as they are now: which are in use, why one is limited as it
// is, and has members trace a key or make its bucket full again. It does not know the past.
package keys

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api/access"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/largest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
)

// Source is what a daemon and its members know of keys. Its functions are called by many
// goroutines.
type Source struct {
	// InUse returns the keys in use at this daemon, in any order.
	InUse func() []string

	// OwnedKeys returns the keys that this daemon owns and that hosts use, in any order, and
	// Owned what it knows of one of them as its owner.
	OwnedKeys func() []string
	Owned     func(key string) []explain.Owned

	// Counts calls f with what each key in use has counted at this daemon, in any order.
	Counts func(f func(limiter.Count))

	// Programs calls f with what programs that report at this daemon's edge did recently with
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

	// Reset has all members make the bucket of key full again. It returns an error for
	// each that does not.
	Reset func(ctx context.Context, key string) map[string]error
}

// Answers are those about keys. It is safe for concurrent use.
type Answers struct {
	Source

	// Limits are those in force.
	Limits *dynamicconfig.Live

	// Events and Log get each bucket that is made full again, and Log of each
	// that is not.
	Events *events.Feed
	Log    *slog.Logger
}

// Routes are what a answers.
func (a *Answers) Routes() map[string]reply.Handler {
	return map[string]reply.Handler{
		"GET /v1/keys":        a.keys,
		"POST /v1/keys/reset": a.reset,
		"GET /v1/explain":     a.explain,
		"PUT /v1/trace":       a.trace,
		"DELETE /v1/trace":    a.trace,
	}
}

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
func (a *Answers) keys(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	n, err := reply.Page(r, 100, 1000)
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
		return reply.Refuse(http.StatusBadRequest, "sort=%.20q: sort by %s", sort, strings.Join(orders, ", "))
	}
	found.Total = len(a.InUse())
	return reply.JSON(w, http.StatusOK, found)
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
func (a *Answers) byName(who *callers.Caller, like, after string, n int) listed {
	type named struct{ shown, name string }
	limits := a.Limits.Current()
	// A key that is used here and owned here comes twice.
	first := largest.New(2*(n+1), func(a, b named) int { return strings.Compare(a.shown, b.shown) })
	for _, names := range [][]string{a.InUse(), a.OwnedKeys()} {
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
func (a *Answers) usedBy(key string) (hosts int) {
	for _, o := range a.Owned(key) {
		hosts = max(hosts, len(o.Hosts))
	}
	return hosts
}

// byCount are the n keys of the largest amounts. It keeps and looks at only those. What programs did that
// report at this daemon's edge is among the counters, and so are keys that they alone use.
func (a *Answers) byCount(who *callers.Caller, like string, amount func(c *limiter.Count, here bool) float64, n int) listed {
	type counted struct {
		Key    string
		amount float64
	}
	most := largest.New(n, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.amount, a.amount), strings.Compare(a.Key, b.Key))
	})
	add := func(c *limiter.Count, here bool) {
		if v := (counted{c.Key, amount(c, here)}); most.Wants(v) && who.MaySee(c.Key) && strings.Contains(c.Rule.Shown(c.Key), like) {
			most.Add(v)
		}
	}
	programs := make(map[string][2]int64) // what they were allowed, and rejected
	a.Programs(func(key string, allowed, rejected float64) {
		programs[key] = [2]int64{int64(allowed), int64(rejected)}
	})
	only := maps.Clone(programs)
	var c limiter.Count // of one key after the other: each of its own would be on the heap
	a.Counts(func(counted limiter.Count) {
		c = counted
		if len(programs) > 0 {
			delete(only, c.Key)
			p := programs[c.Key]
			c.Allowed, c.Rejected = c.Allowed+p[0], c.Rejected+p[1]
		}
		add(&c, true)
	})
	limits := a.Limits.Current()
	for key, p := range only {
		if rule, ok := limits.Match(key); ok {
			add(&limiter.Count{Key: key, Rule: rule, Allowed: p[0], Rejected: p[1]}, false)
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

// trace has all members begin, or end, to remember decisions about a key.
func (a *Answers) trace(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key, err := access.Key(r, who)
	if err != nil {
		return err
	}
	begin := r.Method == http.MethodPut
	if rule, ok := a.Limits.Current().Match(key); begin && ok && forMany(rule, key) {
		return reply.Refuse(http.StatusBadRequest, "%s is the pattern of a rule, and each key that it matches is decided alone: name one of these keys. Nothing is traced", key)
	}
	ctx, cancel := context.WithTimeout(r.Context(), reply.MaxWait)
	defer cancel()
	return reply.JSON(w, http.StatusOK, map[string]any{"failed": failures(ctx, a.Trace(ctx, key, begin))})
}

// failures says of each member why it did not do what ctx asked for.
func failures(ctx context.Context, errs map[string]error) map[string]string {
	failed := make(map[string]string)
	for host, err := range errs {
		if failed[host] = err.Error(); ctx.Err() != nil {
			failed[host] = fmt.Sprintf("it did not answer in %v, and may do it when it answers again", reply.MaxWait)
		}
	}
	return failed
}

// explain answers why a key is limited as it is.
func (a *Answers) explain(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key, err := access.Key(r, who)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), reply.MaxWait)
	defer cancel()
	return reply.JSON(w, http.StatusOK, a.Explain(ctx, key))
}
