// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
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
	notAllowed  = &kind{"method-not-allowed", http.StatusMethodNotAllowed, "The path does not have this method.", "Use a method of the Allow field."}
	badBody     = &kind{"invalid-request", http.StatusBadRequest, "The request cannot be read.", "The detail says what is wrong. Look at /v1/openapi.json for what to send."}
	tooLarge    = &kind{"too-large", http.StatusRequestEntityTooLarge, "The request is too large.", "Send fewer keys in one request."}
	noJSON      = &kind{"not-json", http.StatusUnsupportedMediaType, "The request is not JSON.", "Send Content-Type: application/json, no charset but UTF-8, and no Content-Encoding."}
	noBucket    = &kind{"unmatched", http.StatusNotFound, "No rule matches the key.", "Add a rule for the key to the limits."}
	limited     = &kind{"limited", http.StatusTooManyRequests, "The key is over its limit.", "Try again after Retry-After. The detail says if there is none, and whether a larger max_wait_ms helps."}
	tooCostly   = &kind{"too-costly", http.StatusUnprocessableEntity, "The cost is more than one event may cost.", "Split the event into several, or raise the rule's burst or max_cost."}
	tooManyKeys = &kind{"too-many-keys", http.StatusTooManyRequests, "The rule of the key has max_keys keys already.", "Raise the rule's max_keys, or wait until other keys were idle for its idle_after."}
	invalidKey  = &kind{"invalid-key", http.StatusBadRequest, "Invalid key.", "A key has 1 to 1024 bytes."}
	invalidCost = &kind{"invalid-cost", http.StatusBadRequest, "Invalid cost.", "A cost is a whole number, 1 or more. Without one, it is 1."}
	failed      = &kind{"failed", http.StatusServiceUnavailable, "The bucket of the key did not answer.", "The fallback of the key's rule is closed. Try again."}
	noReserve   = &kind{"no-reservation", http.StatusNotFound, "There is no such reservation here.", "It was settled before, is too old, or was made at another host. What it took stays taken."}
	forbidden   = &kind{"forbidden", http.StatusForbidden, "The program may not do that with the key.", "The detail names the right that the program lacks. An operator can add the key to it in the policy of the daemon."}
	nobody      = &kind{"unauthorized", http.StatusUnauthorized, "It is not known who asks.", "Send a certificate, or Authorization: Bearer and a token, that the policy of the daemon names."}
	inFlight    = &kind{"in-flight", http.StatusUnprocessableEntity, "The rule of the key limits slots in flight.", "HTTP has no request for slots. Use package limiter/client, or another key."}
)

var kinds = []*kind{notFound, notAllowed, badBody, tooLarge, noJSON, noBucket, limited, tooCostly, tooManyKeys, invalidKey, invalidCost, failed, noReserve, inFlight, forbidden, nobody}

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
	case edge.Forbidden:
		return forbidden
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

// Unauthorized answers that it is not known who asks, because of err.
func Unauthorized(w http.ResponseWriter, err error) {
	body, _ := json.Marshal(nobody.problem(err.Error()))
	h := w.Header()
	h["WWW-Authenticate"] = []string{"Bearer"}
	h["Content-Type"] = []string{"application/problem+json"}
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	w.WriteHeader(nobody.status)
	_, _ = w.Write(append(body, '\n'))
}
