// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/rpc/edge"
)

// responder writes answers, and counts them. Safe for concurrent use.
type responder struct {
	metrics *metrics
	random  func() float64
}

// problem says what a kind of problem is.
func (s *responder) problem(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	for _, k := range kinds {
		if k.name == name {
			s.text(w, http.StatusOK, k.title+"\n"+k.advice+"\n")
			return
		}
	}
	s.refuse(w, notFound, "%s", notFound.advice)
}

func (s *responder) openAPI(w http.ResponseWriter, _ *http.Request) {
	s.send(w, http.StatusOK, "application/json", OpenAPI)
}

func (s *responder) live(w http.ResponseWriter, _ *http.Request) { s.text(w, http.StatusOK, "ok\n") }

// notAllowed answers that a path has other methods.
func (s *responder) notAllowed(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", methods)
		s.refuse(w, notAllowed, "Use %s.", strings.ReplaceAll(methods, ", ", " or "))
	}
}

// deny answers that q was refused, which is that of index i if not nil. If the program may
// not ask it, forbidden says why.
func (s *responder) deny(w http.ResponseWriter, q *ask, d *edge.Decision, forbidden error, i *int) {
	k := kindOf(d.Reason)
	later := s.retryAfter(d.RetryAfter)
	setRetryAfter(w.Header(), later)
	detail := advice(k, q, d)
	if forbidden != nil {
		detail = forbidden.Error()
	}
	s.sendProblem(w, k.status, refusal{problem: k.problem(detail), result: resultOf(q, d, later), Index: i})
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

// retryAfter is d and a random part more of it; 0 stays 0.
func (s *responder) retryAfter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return edge.Later(d, s.random())
}

func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h["Retry-After"] = []string{edge.Seconds(d)}
	}
}

// refuse answers with a problem; format and args are its detail, if any.
func (s *responder) refuse(w http.ResponseWriter, k *kind, format string, args ...any) {
	s.sendProblem(w, k.status, k.problem(fmt.Sprintf(format, args...)))
}

// sendProblem sends what has the members of a problem, and more.
func (s *responder) sendProblem(w http.ResponseWriter, status int, p any) {
	body, err := json.Marshal(p)
	if err != nil { // there are no numbers that JSON has not
		status, body = http.StatusInternalServerError, []byte("{}")
	}
	s.send(w, status, "application/problem+json", append(body, '\n'))
}

func (s *responder) sendJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil { // there are no numbers that JSON has not
		s.refuse(w, failed, "")
		return
	}
	s.send(w, http.StatusOK, "application/json", append(body, '\n'))
}

func (s *responder) text(w http.ResponseWriter, status int, text string) {
	s.send(w, status, "text/plain; charset=utf-8", []byte(text))
}

// send writes a whole answer. A client that left early does not get it.
func (s *responder) send(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	if contentType == "application/json" {
		h["Content-Type"] = asJSON
	} else {
		h["Content-Type"] = []string{contentType}
	}
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	s.metrics.answered(status)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Fields that are the same each time. They are never changed.
var noStore, noSniff, asJSON = []string{"no-store"}, []string{"nosniff"}, []string{"application/json"}
