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
	Cost        *whole  `json:"cost"`
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
	q := a.reader.readOne(w, r)
	if q == nil {
		return
	}
	if q.MaxWaitMS != nil {
		a.responder.refuse(w, badBody, "max_wait_ms is for what has not happened yet")
		return
	}
	d, forbidden := a.decider.decide(r.Context(), q, edge.Charge)
	if !d.OK {
		a.responder.deny(w, q, &d, forbidden, nil)
		return
	}
	edge.SetRateLimit(w.Header(), &d)
	answer := charged{Cost: q.cost()}
	answer.Limit, answer.Burst, answer.Remaining = bucketOf(d.Policy, d.Limit, d.Burst, d.Left)
	a.responder.sendJSON(w, answer)
}

// reserve takes what an event is thought to cost.
func (a *API) reserve(w http.ResponseWriter, r *http.Request) {
	q := a.reader.readOne(w, r)
	if q == nil {
		return
	}
	d, forbidden := a.decider.decide(r.Context(), q, edge.Hold)
	edge.SetRateLimit(w.Header(), &d)
	if !d.OK {
		a.responder.deny(w, q, &d, forbidden, nil)
		return
	}
	a.responder.sendJSON(w, reserved{resultOf(q, &d, 0), a.reserved.add(time.Now(), d.Held)})
}

// settle says what it did cost.
func (a *API) settle(w http.ResponseWriter, r *http.Request) {
	body, ok := a.reader.body(w, r)
	if !ok {
		return
	}
	var q settlement
	err := decode(body, &q)
	if err == nil {
		err = q.check()
	}
	if err != nil {
		a.responder.refuse(w, badBody, "%v", err)
		return
	}
	held := a.reserved.take(*q.Reservation)
	if held == nil {
		a.responder.metrics.unknown.Inc(1)
		a.responder.refuse(w, noReserve, "%s", noReserve.advice)
		return
	}
	a.decider.engine.Decide(r.Context(), edge.Ask{Kind: edge.Settle, Held: held, Cost: int64(*q.Cost)})
	a.responder.metrics.settled.Inc(1)
	a.responder.sendJSON(w, q)
}
