// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"math"
	"net/http"
	"time"

	"github.com/headgate/headgate/rpc/edge"
)

// result is what became of one ask. Limit, Burst and Remaining are left out
// when nothing is limited, or there is no bucket.
type result struct {
	Allowed      bool     `json:"allowed"`
	Reason       string   `json:"reason"`
	Cost         int64    `json:"cost"`
	WaitMS       *int64   `json:"wait_ms,omitempty"`        // when allowed
	RetryAfterMS *int64   `json:"retry_after_ms,omitempty"` // when it is known
	Limit        *float64 `json:"limit,omitempty"`
	Burst        *float64 `json:"burst,omitempty"`
	Remaining    *float64 `json:"remaining,omitempty"`
}

// refusal is a problem with the result that it is about.
type refusal struct {
	problem
	result

	// Index is that of the first request that was refused, of several.
	Index *int `json:"index,omitempty"`
}

// results are those of several asks.
type results struct {
	Allowed bool     `json:"allowed"` // all of them
	Results []result `json:"results"`
}

func (a *API) allow(w http.ResponseWriter, r *http.Request) {
	q := a.reader.read(w, r)
	switch {
	case q == nil:
	case q.Requests == nil:
		a.allowOne(w, r, q.one())
	case q.AllOrNothing != nil && *q.AllOrNothing:
		a.allowAll(w, r, q.Requests)
	default:
		a.allowEach(w, r, q.Requests)
	}
}

func (a *API) allowOne(w http.ResponseWriter, r *http.Request, q *ask) {
	d, forbidden := a.decider.decide(r.Context(), q, edge.Take)
	edge.SetRateLimit(w.Header(), &d)
	if !d.OK {
		a.responder.deny(w, q, &d, forbidden, nil)
		return
	}
	answer := resultOf(q, &d, 0)
	a.responder.send(w, http.StatusOK, "application/json", append(answer.appendJSON(make([]byte, 0, 192)), '\n'))
}

// allowEach decides each by itself.
func (a *API) allowEach(w http.ResponseWriter, r *http.Request, qs []ask) {
	all := results{Allowed: true, Results: make([]result, len(qs))}
	decisions, _ := a.decider.decideAll(r.Context(), qs)
	for i, d := range decisions {
		all.Allowed = all.Allowed && d.OK
		all.Results[i] = resultOf(&qs[i], &d, a.responder.retryAfter(d.RetryAfter))
	}
	a.responder.sendJSON(w, all)
}

// allowAll gives back what it took when one is refused.
func (a *API) allowAll(w http.ResponseWriter, r *http.Request, qs []ask) {
	all := results{Allowed: true, Results: make([]result, len(qs))}
	decisions, forbidden := a.decider.decideAll(r.Context(), qs)
	for i := range decisions {
		if d := &decisions[i]; !d.OK {
			a.decider.release(decisions)
			a.responder.deny(w, &qs[i], d, forbidden[i], &i)
			return
		}
		all.Results[i] = resultOf(&qs[i], &decisions[i], 0)
	}
	a.responder.sendJSON(w, all)
}

// resultOf is what became of q, which may come again after later.
func resultOf(q *ask, d *edge.Decision, later time.Duration) result {
	r := result{Allowed: d.OK, Reason: d.Reason.String(), Cost: q.cost()}
	if d.OK {
		r.WaitMS = new(edge.Millis(d.Wait))
	} else if later > 0 {
		r.RetryAfterMS = new(edge.Millis(later))
	}
	r.Limit, r.Burst, r.Remaining = bucketOf(d.Policy, d.Limit, d.Burst, d.Left)
	return r
}

// leastLeft is what arithmetic has left of no tokens, at most.
const leastLeft = 1e-6

// bucketOf are the numbers of a bucket as JSON has them: nil, for nothing,
// where there is no bucket or no limit. The limit and the burst are those that p says for
// all hosts, if it is known, as in RateLimit-Policy. What is left is left on this host, and nil
// where this host's part of the limit has no rate now.
func bucketOf(p edge.Policy, limit, burst, left float64) (l, b, r *float64) {
	if !p.Known && limit == 0 && burst == 0 && left == 0 {
		return nil, nil, nil
	}
	of := func(x float64) *float64 {
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return nil
		}
		return &x
	}
	if math.Abs(left) < leastLeft {
		left = 0
	}
	if r = of(math.Floor(left)); edge.NoRate(limit, burst) {
		r = nil
	}
	if p.Known && !math.IsInf(limit, 1) {
		limit, burst = p.Limit, p.Burst
	}
	return of(limit), of(burst), r
}
