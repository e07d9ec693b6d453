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
	d := a.decide(r.Context(), q)
	setRateLimit(w.Header(), d.Policy, d.Limit, d.Burst, d.Left)
	if !d.OK {
		a.deny(w, q, &d, nil)
		return
	}
	answer := a.result(q, &d, 0)
	a.send(w, http.StatusOK, "application/json", append(answer.appendJSON(make([]byte, 0, 128)), '\n'))
}

// allowEach decides each by itself.
func (a *API) allowEach(w http.ResponseWriter, r *http.Request, qs []ask) {
	all := results{Allowed: true, Results: make([]result, len(qs))}
	for i := range qs {
		d := a.decide(r.Context(), &qs[i])
		all.Allowed = all.Allowed && d.OK
		all.Results[i] = a.result(&qs[i], &d, a.retryAfter(d.RetryAfter))
	}
	a.sendJSON(w, all)
}

// allowAll gives back what it took when one is refused.
func (a *API) allowAll(w http.ResponseWriter, r *http.Request, qs []ask) {
	all := results{Allowed: true, Results: make([]result, len(qs))}
	cancels := make([]func(), 0, len(qs))
	for i := range qs {
		d, cancel := a.hold(r.Context(), &qs[i])
		if !d.OK {
			for _, cancel := range cancels {
				cancel()
			}
			a.deny(w, &qs[i], &d, &i)
			return
		}
		cancels = append(cancels, cancel)
		all.Results[i] = a.result(&qs[i], &d, 0)
	}
	a.sendJSON(w, all)
}

// deny answers that q was refused, which is that of index i if not nil.
func (a *API) deny(w http.ResponseWriter, q *ask, d *edge.Decision, i *int) {
	k := kindOf(d.Reason)
	later := a.retryAfter(d.RetryAfter)
	setRetryAfter(w.Header(), later)
	a.sendProblem(w, k.status, refusal{problem: k.problem(a.advice(k, q, d)), result: a.result(q, d, later), Index: i})
}

// advice is what the program can do about a problem of kind k with q.
func (a *API) advice(k *kind, q *ask, d *edge.Decision) string {
	if k != limited {
		return k.advice
	}
	most := a.buckets.MaxWait(*q.Key)
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

// decide takes what q asks for.
func (a *API) decide(ctx context.Context, q *ask) edge.Decision {
	d := edge.Decision{Reason: edge.InvalidCost}
	if n := q.cost(); n >= 1 {
		d = a.buckets.Decide(ctx, *q.Key, n, a.longest(q))
	}
	a.metrics.decided(&d)
	return d
}

// hold is decide, and can give back.
func (a *API) hold(ctx context.Context, q *ask) (d edge.Decision, cancel func()) {
	d = edge.Decision{Reason: edge.InvalidCost}
	if n := q.cost(); n >= 1 {
		d, cancel = a.buckets.Hold(ctx, *q.Key, n, a.longest(q))
	}
	a.metrics.decided(&d)
	return d, cancel
}

func (q *ask) cost() int64 {
	if q.Cost == nil {
		return 1
	}
	return *q.Cost
}

// longest is how long q's event may wait: as long as its program would, and as the
// rule of its key lets other programs wait.
func (a *API) longest(q *ask) time.Duration {
	longest := q.longest()
	if longest > edge.DefaultMaxWait { // below, the key's bucket knows its rule
		longest = min(longest, a.buckets.MaxWait(*q.Key))
	}
	return longest
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
