// SPDX-License-Identifier: Apache-2.0

// Package lasthour answers from what the members remember of the last hour: what happened to a
// key and why, what other limits would have done, and which limits would have had room. It
// remembers nothing itself.
package lasthour

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/access"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/recent"
	"github.com/headgate/headgate/limiter/explain"
)

// History is what the members remember of the last hour. It is asked by many goroutines.
type History interface {
	// Series returns what happened, by the names of the members that answer, and which do
	// not.
	Series(ctx context.Context, w Wanted) (hosts map[string][]recent.Point, silent []string)

	// Totals returns the keys that were used most, over all members that answer, and since
	// when all of these remember.
	Totals(ctx context.Context) (keys []recent.Total, since time.Time, silent []string)
}

// Wanted is which part of a key's past is asked for.
type Wanted struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`

	// Limits, if not empty, is the name of limits, such as "version 12". Of each member, only
	// what happened under them is wanted.
	Limits string `json:"limits,omitempty"`

	// Without are members that are not asked, because they have not answered a moment ago.
	Without []string `json:"-"`
}

// Answers are those about the last hour. It is safe for concurrent use.
type Answers struct {
	// Limits are those in force, and Store has their versions; nil if they are in a file.
	Limits *dynamicconfig.Live
	Store  history.Store

	// History is what the members remember.
	History History

	// Explain returns why key is limited as it is, from all members that answer.
	Explain func(ctx context.Context, key string) explain.Explanation

	// Events are what happened at this daemon.
	Events *events.Feed
}

// Routes are what a answers.
func (a *Answers) Routes() map[string]reply.Handler {
	return map[string]reply.Handler{
		"GET /v1/usage":           a.usage,
		"GET /v1/explain/past":    a.then,
		"POST /v1/limits/dry-run": a.dryRun,
		"GET /v1/limits/suggest":  a.suggest,
	}
}

// Usage is what happened to a key, over all members: row i of each column is about the same
// period. What is not there is 0.
type Usage struct {
	Times    []int64   `json:"times"`    // when the period began, in Unix time
	Allowed  []float64 `json:"allowed"`  // in tokens per second
	Rejected []float64 `json:"rejected"` // in tokens per second

	// Hosts is how much each member allowed and rejected, in tokens.
	Hosts []HostUsage `json:"hosts"`

	reply.Silence
}

// HostUsage is what one member did with a key.
type HostUsage struct {
	Host     string  `json:"host"`
	Allowed  float64 `json:"allowed"`
	Rejected float64 `json:"rejected"`
}

// usage answers what happened to a key.
func (a *Answers) usage(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key, err := access.Key(r, who)
	if err != nil {
		return err
	}
	back, err := ago(r, 5*time.Minute)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), reply.MaxWait)
	defer cancel()
	since := time.Now().Add(-back)
	hosts, silent := a.History.Series(ctx, Wanted{Key: key, Since: since})
	u := Usage{Times: []int64{}, Allowed: []float64{}, Rejected: []float64{}, Hosts: []HostUsage{}, Silence: reply.SilenceOf(silent)}
	var all [][]recent.Point
	for host, points := range hosts {
		h := HostUsage{Host: host}
		for _, p := range points {
			h.Allowed += p.Allowed
			h.Rejected += p.Reject
		}
		u.Hosts, all = append(u.Hosts, h), append(all, points)
	}
	slices.SortFunc(u.Hosts, func(a, b HostUsage) int { return strings.Compare(a.Host, b.Host) })
	next := int64(0)
	for _, p := range recent.Sum(all...) {
		if next != 0 && p.Second > next { // nothing happened in between
			u.add(next, 0, 0)
			if p.Second > next+1 {
				u.add(p.Second-1, 0, 0)
			}
		}
		u.add(p.Second, p.Allowed/float64(p.Length), p.Reject/float64(p.Length))
		next = p.Second + p.Length
	}
	return reply.JSON(w, http.StatusOK, u)
}

// ago is how long ago r is about.
func ago(r *http.Request, otherwise time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get("since")
	if text == "" {
		return otherwise, nil
	}
	back, err := time.ParseDuration(text)
	if err != nil || back <= 0 || back > recent.Hour {
		return 0, reply.Refuse(http.StatusBadRequest, "since=%.20q: write how long ago, at most an hour, as in 5m", text)
	}
	return back, nil
}

func (u *Usage) add(second int64, allowed, rejected float64) {
	u.Times, u.Allowed, u.Rejected = append(u.Times, second), append(u.Allowed, allowed), append(u.Rejected, rejected)
}
