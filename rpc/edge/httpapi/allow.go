// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
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
	q := a.read(w, r)
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
	d := a.decide(r.Context(), q, edge.Take)
	edge.SetRateLimit(w.Header(), &d)
	if !d.OK {
		a.deny(w, q, &d, nil)
		return
	}
	answer := a.result(q, &d, 0)
	a.send(w, http.StatusOK, "application/json", append(answer.appendJSON(make([]byte, 0, 192)), '\n'))
}

// allowEach decides each by itself.
func (a *API) allowEach(w http.ResponseWriter, r *http.Request, qs []ask) {
	all := results{Allowed: true, Results: make([]result, len(qs))}
	for i, d := range a.decideAll(r.Context(), qs) {
		all.Allowed = all.Allowed && d.OK
		all.Results[i] = a.result(&qs[i], &d, a.retryAfter(d.RetryAfter))
	}
	a.sendJSON(w, all)
}

// allowAll gives back what it took when one is refused.
func (a *API) allowAll(w http.ResponseWriter, r *http.Request, qs []ask) {
	all := results{Allowed: true, Results: make([]result, len(qs))}
	decisions := a.decideAll(r.Context(), qs)
	for i := range decisions {
		if d := &decisions[i]; !d.OK {
			a.release(decisions)
			a.deny(w, &qs[i], d, &i)
			return
		}
		all.Results[i] = a.result(&qs[i], &decisions[i], 0)
	}
	a.sendJSON(w, all)
}

// release gives back what is held.
func (a *API) release(decisions []edge.Decision) {
	for i := range decisions {
		if held := decisions[i].Held; held != nil {
			a.engine.Decide(context.Background(), edge.Ask{Kind: edge.Release, Held: held})
		}
	}
}

// deny answers that q was refused, which is that of index i if not nil.
func (a *API) deny(w http.ResponseWriter, q *ask, d *edge.Decision, i *int) {
	k := kindOf(d.Reason)
	later := a.retryAfter(d.RetryAfter)
	setRetryAfter(w.Header(), later)
	a.sendProblem(w, k.status, refusal{problem: k.problem(advice(k, q, d)), result: a.result(q, d, later), Index: i})
}

// advice is what the program can do about a problem of kind k with q.
func advice(k *kind, q *ask, d *edge.Decision) string {
	if k != limited {
		return k.advice
	}
	most := d.Policy.MaxWait
	switch {
	case d.Policy.Known && d.Policy.Limit == 0:
		return "The limit of the key is 0: nothing is allowed until the rule changes."
	case d.RetryAfter <= 0:
		return "Try again later. It is not known when there are tokens again."
	case min(q.longest(), most)+d.RetryAfter > most:
		return fmt.Sprintf("Try again after Retry-After. Events of the key wait at most %d ms, and this one would wait longer.", edge.Millis(most))
	}
	return "Try again after Retry-After, or ask with a larger max_wait_ms."
}

// decide has the engine decide about q.
func (a *API) decide(ctx context.Context, q *ask, kind edge.Kind) edge.Decision {
	d := edge.Decision{Reason: edge.Forbidden}
	if a.may(ctx, kind, *q.Key) == nil {
		d = a.engine.Decide(ctx, q.as(kind))
	}
	a.metrics.decided(&d)
	return d
}

// decideAll has the engine hold the tokens for all of qs. If the program leaves while
// owners are asked, all that was taken goes back.
func (a *API) decideAll(ctx context.Context, qs []ask) []edge.Decision {
	asks := make([]edge.Ask, len(qs))
	for i := range qs {
		asks[i] = qs[i].as(edge.Hold)
	}
	decisions := a.decideAllowed(ctx, asks)
	if ctx.Err() != nil {
		a.release(decisions)
		for i := range decisions {
			if decisions[i].OK {
				decisions[i] = edge.Decision{Reason: edge.Limited}
			}
		}
	}
	for i := range decisions {
		a.metrics.decided(&decisions[i])
	}
	return decisions
}

// decideAllowed has the engine decide about those of asks that the program may ask. Takes
// that are held until the answer is written are takes too.
func (a *API) decideAllowed(ctx context.Context, asks []edge.Ask) []edge.Decision {
	forbidden := make([]bool, len(asks))
	allowed := make([]edge.Ask, 0, len(asks))
	for i := range asks {
		if forbidden[i] = a.may(ctx, edge.Take, asks[i].Key) != nil; !forbidden[i] {
			allowed = append(allowed, asks[i])
		}
	}
	decided := a.engine.DecideAll(ctx, allowed)
	if len(allowed) == len(asks) {
		return decided
	}
	decisions := make([]edge.Decision, len(asks))
	next := 0
	for i := range decisions {
		if forbidden[i] {
			decisions[i].Reason = edge.Forbidden
			continue
		}
		decisions[i] = decided[next]
		next++
	}
	return decisions
}

// as is q as the engine takes it. Nothing is free here: a cost below 1 is invalid.
func (q *ask) as(kind edge.Kind) edge.Ask {
	cost := q.cost()
	if cost < 1 {
		cost = -1
	}
	return edge.Ask{Kind: kind, Key: *q.Key, Cost: cost, Longest: q.longest()}
}

func (q *ask) cost() int64 {
	if q.Cost == nil {
		return 1
	}
	return *q.Cost
}

// longest is how long the program would wait.
func (q *ask) longest() time.Duration {
	if q.MaxWaitMS == nil {
		return 0
	}
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(*q.MaxWaitMS, most)) * time.Millisecond
}

func (a *API) result(q *ask, d *edge.Decision, later time.Duration) result {
	r := result{Allowed: d.OK, Reason: d.Reason.String(), Cost: q.cost()}
	if d.OK {
		r.WaitMS = new(edge.Millis(d.Wait))
	} else if later > 0 {
		r.RetryAfterMS = new(edge.Millis(later))
	}
	r.Limit, r.Burst, r.Remaining = bucketOf(d.Policy, d.Limit, d.Burst, d.Left)
	return r
}

// leastBurst: what is below is what arithmetic has left of none.
const leastBurst = 1e-6

// bucketOf are the numbers of a bucket as JSON has them: nil, for nothing,
// where there is no bucket or no limit.
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
	if burst < leastBurst {
		burst = 0
	}
	if math.Abs(left) < leastBurst {
		left = 0
	}
	return of(limit), of(burst), of(math.Floor(left))
}

func (a *API) sendJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil { // there are no numbers that JSON has not
		a.refuse(w, failed, "")
		return
	}
	a.send(w, http.StatusOK, "application/json", append(body, '\n'))
}
