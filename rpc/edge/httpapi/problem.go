// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/headgate/headgate/rpc/edge"
)

// kind is a kind of problem. Its type is the path that says more about it.
type kind struct {
	name   string
	status int
	title  string
	advice string
}

// Kinds of requests that cannot be answered.
var (
	notFound    = &kind{"not-found", http.StatusNotFound, "There is nothing at this path.", "Look at /v1/openapi.json for what there is."}
	notAllowed  = &kind{"method-not-allowed", http.StatusMethodNotAllowed, "This path is not for this method.", "The Allow field has those that it is for."}
	badBody     = &kind{"invalid-request", http.StatusBadRequest, "The request cannot be read.", "The detail says what is wrong. Look at /v1/openapi.json for what to send."}
	tooLarge    = &kind{"too-large", http.StatusRequestEntityTooLarge, "The request is too large.", "Send fewer keys in one request."}
	noJSON      = &kind{"not-json", http.StatusUnsupportedMediaType, "The request is not JSON.", "Send Content-Type: application/json, and no Content-Encoding."}
	noBucket    = &kind{"unmatched", http.StatusNotFound, "No rule matches the key.", "Nothing of it is allowed. Add a rule to the limits."}
	limited     = &kind{"limited", http.StatusTooManyRequests, "The key is over its limit.", "Come again after Retry-After, or ask with a larger max_wait_ms."}
	tooCostly   = &kind{"too-costly", http.StatusUnprocessableEntity, "The rule lets no event cost so much.", "Split it into several, or raise the burst or max_cost of the rule."}
	tooManyKeys = &kind{"too-many-keys", http.StatusTooManyRequests, "The rule of the key has as many keys as it may.", "Raise its max_keys, or wait until keys have been idle for long enough to leave."}
	invalidKey  = &kind{"invalid-key", http.StatusBadRequest, "No key is like that.", "A key has 1 to 1024 bytes."}
	invalidCost = &kind{"invalid-cost", http.StatusBadRequest, "No cost is like that.", "A cost is a whole number, 1 or more; it is left out for 1."}
	failed      = &kind{"failed", http.StatusServiceUnavailable, "Nobody could decide.", "Who decides about the key did not answer, and its rule denies then. Try again."}
	noReserve   = &kind{"no-reservation", http.StatusNotFound, "There is no such reservation here.", "It was settled before, is too old, or was made at another host. What it took stays taken."}
	inFlight    = &kind{"in-flight", http.StatusUnprocessableEntity, "The rule of the key limits slots in flight.", "Slots are taken and released, which is not for HTTP. Use another key."}
)

var kinds = []*kind{notFound, notAllowed, badBody, tooLarge, noJSON, noBucket, limited, tooCostly, tooManyKeys, invalidKey, invalidCost, failed, noReserve, inFlight}

// kindOf is the problem of a decision that is not OK.
func kindOf(r edge.Reason) *kind {
	switch r {
	case edge.Limited:
		return limited
	case edge.TooCostly:
		return tooCostly
	case edge.Unmatched:
		return noBucket
	case edge.TooManyKeys:
		return tooManyKeys
	case edge.InvalidKey:
		return invalidKey
	case edge.InvalidCost:
		return invalidCost
	case edge.InFlight:
		return inFlight
	default:
		return failed
	}
}

// problem is the body of an answer that is no success.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func (k *kind) problem(detail string) problem {
	return problem{Type: "/v1/problems/" + k.name, Title: k.title, Status: k.status, Detail: detail}
}

// refuse answers with a problem; format and args are its detail, if any.
func (a *API) refuse(w http.ResponseWriter, k *kind, format string, args ...any) {
	a.sendProblem(w, k.status, k.problem(fmt.Sprintf(format, args...)))
}

// sendProblem sends what has the members of a problem, and more.
func (a *API) sendProblem(w http.ResponseWriter, status int, p any) {
	body, err := json.Marshal(p)
	if err != nil { // there are no numbers that JSON has not
		status, body = http.StatusInternalServerError, []byte("{}")
	}
	a.send(w, status, "application/problem+json", append(body, '\n'))
}

// problem says what a kind of problem is.
func (a *API) problem(w http.ResponseWriter, r *http.Request) {
	name := rest(r, "/v1/problems/")
	for _, k := range kinds {
		if k.name == name {
			a.text(w, http.StatusOK, k.title+"\n"+k.advice+"\n")
			return
		}
	}
	a.refuse(w, notFound, "")
}
