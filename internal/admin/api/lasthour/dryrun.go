// SPDX-License-Identifier: Apache-2.0

package lasthour

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/admin/api/versions"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/recent"
)

// DryRun is what a text of limits would have done with the last hour.
type DryRun struct {
	versions.Outcome

	// Since is when the members began to remember, at most an hour ago.
	Since time.Time `json:"since"`

	// Offered is all that was asked for of the keys that the text changes, in tokens;
	// Rejected is how much of that was rejected, by what the rules enforce now, and Would how
	// much would have been.
	Offered  float64 `json:"offered"`
	Rejected float64 `json:"rejected"`
	Would    float64 `json:"would"`

	// Keys are those that the text changes, the ones that it would have hit most first.
	// More is how many of them are not in the list, and were not looked at.
	Keys []DryKey `json:"keys"`
	More int      `json:"more"`

	reply.Silence
}

// DryKey is one key of a DryRun.
type DryKey struct {
	recent.Dry

	Key   string `json:"key"`
	Rule  string `json:"rule"`  // in the text
	Hosts int    `json:"hosts"` // at which it was used
}

// maxDry bounds how many keys a dry run looks at.
const maxDry = 1000

// dryRun answers what a text would have done.
func (a *Answers) dryRun(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	text, err := versions.Body(w, r)
	if err != nil {
		return err
	}
	s, err := versions.Parse(a.Limits, text)
	if err != nil {
		return err
	}
	back, err := ago(r, recent.Hour)
	if err != nil {
		return err
	}
	past, cancel := a.begin(r.Context())
	defer cancel()
	old := a.Limits.Current()
	totals, since := past.totals()
	if from := time.Now().Add(-back); since.Before(from) {
		since = from
	}
	d := DryRun{Outcome: versions.Outcome{Rules: versions.CountRules(s), Changes: versions.Changes(dynamicconfig.Diff(old, s))}, Since: since, Keys: []DryKey{}}
	s = s.At(time.Now()) // as it would be in force, with its overrides
	for _, t := range totals {
		was, _ := old.Match(t.Key)
		rule, ok := s.Match(t.Key)
		if !who.MaySee(t.Key) || same(was, rule) && (ok || old.Unmatched() == s.Unmatched()) {
			continue
		}
		hosts, looked := past.series(len(d.Keys) < maxDry, Wanted{Key: t.Key, Since: since, Limits: r.URL.Query().Get("under")})
		if !looked {
			d.More++
			continue
		}
		var all [][]recent.Point
		for _, points := range hosts {
			if len(points) > 0 {
				all = append(all, points)
			}
		}
		k := DryKey{Key: s.Shown(old.Shown(t.Key)), Hosts: len(all)}
		switch {
		case !ok:
			k.Dry = recent.Unlimited(recent.Sum(all...), s.Unmatched() == dynamicconfig.UnmatchedDeny)
		case rule.Bypassed():
			k.Rule, k.Dry = rule.Key, recent.Unlimited(recent.Sum(all...), false)
		default:
			k.Rule, k.Dry = rule.Key, recent.Replay(recent.Sum(all...), rule)
		}
		if was != nil { // what a rule lets through that it enforces in part is counted as over its limit
			k.Rejected *= was.Enforced()
		}
		d.Keys = append(d.Keys, k)
		d.Offered, d.Rejected, d.Would = d.Offered+k.Offered, d.Rejected+k.Rejected, d.Would+k.Would
	}
	slices.SortFunc(d.Keys, func(a, b DryKey) int {
		return cmp.Or(cmp.Compare(b.Would-b.Rejected, a.Would-a.Rejected), strings.Compare(a.Key, b.Key))
	})
	d.Silence = reply.SilenceOf(past.silent)
	return reply.JSON(w, http.StatusOK, d)
}

// How long members are waited for, so that callers, who wait 10 s by default, learn which did not answer.
const (
	maxAsking = 9 * time.Second // for all that one request asks
	maxSeries = time.Second     // for the past of one key, once the totals are there
)

// asking is what one request asks the members. It waits for a member that hangs only once.
type asking struct {
	of     History
	ctx    context.Context //nolint:containedctx // asking is one call
	silent []string
}

// begin returns an asking for as long as a request may take.
func (a *Answers) begin(ctx context.Context) (*asking, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, maxAsking)
	return &asking{of: a.History, ctx: ctx}, cancel
}

// totals are those of all members that answer in time.
func (a *asking) totals() (keys []recent.Total, since time.Time) {
	ctx, cancel := context.WithTimeout(a.ctx, reply.MaxWait)
	defer cancel()
	keys, since, a.silent = a.of.Totals(ctx)
	return keys, since
}

// series is the past of one key, if there is room for it, and time.
func (a *asking) series(room bool, w Wanted) (hosts map[string][]recent.Point, ok bool) {
	if !room || a.ctx.Err() != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(a.ctx, maxSeries)
	defer cancel()
	w.Without = a.silent
	hosts, silent := a.of.Series(ctx, w)
	a.silent = append(a.silent, silent...)
	return hosts, true
}

// same reports whether two rules, which may be nil, limit a key alike.
func same(a, b *dynamicconfig.Rule) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Bypassed() == b.Bypassed() && a.Limit == b.Limit && a.Burst == b.Burst && a.InFlight == b.InFlight && a.Enforced() == b.Enforced() && a.Shared == b.Shared && (!a.Shared || a.Key == b.Key)
}

// Suggestion is a limit for a key, from its peak.
type Suggestion struct {
	Key   string  `json:"key"`
	Peak  float64 `json:"peak"`  // in tokens per second, over all members
	Limit string  `json:"limit"` // now; empty without one

	// Suggested is the limit with room above the peak; empty if Peak is 0.
	Suggested string `json:"suggested"`

	// Costly are tokens of events that cost more than any may, as by the rule's burst. Peak has
	// none of them: no limit lets them through.
	Costly float64 `json:"costly,omitempty"`
}

// Suggestions are limits with room above what was offered at the peak.
type Suggestions struct {
	Since       time.Time    `json:"since"` // when the members began to remember, at most an hour ago
	Suggestions []Suggestion `json:"suggestions"`
	More        int          `json:"more"` // keys that are not among them

	reply.Silence
}

// suggest answers limits with room above what was offered at the peak.
func (a *Answers) suggest(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	n, err := reply.Page(r, 20, 200)
	if err != nil {
		return err
	}
	margin := 1.5
	if text := r.URL.Query().Get("margin"); text != "" {
		if margin, err = strconv.ParseFloat(text, 64); err != nil || !(margin >= 1 && margin <= 100) {
			return reply.Refuse(http.StatusBadRequest, "margin=%.20q: write how many times the peak, 1 to 100", text)
		}
	}
	like := r.URL.Query().Get("like")
	past, cancel := a.begin(r.Context())
	defer cancel()
	totals, since := past.totals()
	limits := a.Limits.Current()
	all := Suggestions{Since: since, Suggestions: []Suggestion{}}
	for _, t := range totals {
		if !who.MaySee(t.Key) || !strings.Contains(limits.Shown(t.Key), like) {
			continue
		}
		hosts, ok := past.series(len(all.Suggestions) < n, Wanted{Key: t.Key, Since: since})
		if !ok {
			all.More++
			continue
		}
		var points [][]recent.Point
		for _, p := range hosts {
			points = append(points, p)
		}
		s := Suggestion{Key: limits.Shown(t.Key)}
		s.Peak, s.Costly = recent.Peak(recent.Sum(points...))
		if s.Peak > 0 {
			s.Suggested = strconv.FormatFloat(round(margin*s.Peak), 'f', -1, 64) + "/s"
		}
		if rule, ok := limits.Match(t.Key); ok {
			s.Limit = rule.Amount()
		}
		all.Suggestions = append(all.Suggestions, s)
	}
	all.Silence = reply.SilenceOf(past.silent)
	return reply.JSON(w, http.StatusOK, all)
}

// round is v with two digits, rounded up, as people write limits.
func round(v float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		if v <= 100*unit {
			return unit * float64(int64((v+unit-1e-9)/unit))
		}
	}
}
