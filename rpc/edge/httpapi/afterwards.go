// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/rpc/edge"
)

// reserved is a result, and what to call it when it is settled.
type reserved struct {
	result

	Reservation string `json:"reservation"`
}

// settlement is the body of POST /v1/settle, and of its answer.
type settlement struct {
	Reservation *string `json:"reservation"`
	Cost        *int64  `json:"cost"`
}

func (q *settlement) check() error {
	switch {
	case q.Reservation == nil:
		return errors.New("there is no reservation")
	case q.Cost == nil:
		return errors.New("there is no cost: say what it did cost, 0 if nothing")
	case *q.Cost < 0:
		return errors.New("cost is below 0")
	}
	return nil
}

// charged is the answer of POST /v1/charge.
type charged struct {
	Cost      int64    `json:"cost"`
	Limit     *float64 `json:"limit,omitempty"`
	Burst     *float64 `json:"burst,omitempty"`
	Remaining *float64 `json:"remaining,omitempty"`
}

// charge takes what has been used already.
func (a *API) charge(w http.ResponseWriter, r *http.Request) {
	q := a.readOne(w, r)
	if q == nil {
		return
	}
	if q.MaxWaitMS != nil {
		a.refuse(w, badBody, "max_wait_ms is for what has not happened yet")
		return
	}
	d := a.decide(r.Context(), q, edge.Charge)
	if !d.OK {
		a.deny(w, q, &d, nil)
		return
	}
	edge.SetRateLimit(w.Header(), &d)
	answer := charged{Cost: q.cost()}
	answer.Limit, answer.Burst, answer.Remaining = bucketOf(d.Policy, d.Limit, d.Burst, d.Left)
	a.sendJSON(w, answer)
}

// reserve takes what an event is thought to cost.
func (a *API) reserve(w http.ResponseWriter, r *http.Request) {
	q := a.readOne(w, r)
	if q == nil {
		return
	}
	d := a.decide(r.Context(), q, edge.Hold)
	edge.SetRateLimit(w.Header(), &d)
	if !d.OK {
		a.deny(w, q, &d, nil)
		return
	}
	a.sendJSON(w, reserved{a.result(q, &d, 0), a.reserved.add(time.Now(), d.Held)})
}

// settle says what it did cost.
func (a *API) settle(w http.ResponseWriter, r *http.Request) {
	body, ok := a.body(w, r)
	if !ok {
		return
	}
	var q settlement
	err := decode(body, &q)
	if err == nil {
		err = q.check()
	}
	if err != nil {
		a.refuse(w, badBody, "%v", err)
		return
	}
	held := a.reserved.take(*q.Reservation)
	if held == nil {
		a.metrics.unknown.Inc(1)
		a.refuse(w, noReserve, "%s", noReserve.advice)
		return
	}
	a.engine.Decide(r.Context(), edge.Ask{Kind: edge.Settle, Held: held, Cost: *q.Cost})
	a.metrics.settled.Inc(1)
	a.sendJSON(w, q)
}

// readOne reads the body of r, which asks about one event. When that is
// impossible it answers, and returns nil.
func (a *API) readOne(w http.ResponseWriter, r *http.Request) *ask {
	q := a.read(w, r)
	if q != nil && q.Requests != nil {
		a.refuse(w, badBody, "requests is for /v1/allow: ask about one event")
		return nil
	}
	if q == nil {
		return nil
	}
	return q.one()
}
